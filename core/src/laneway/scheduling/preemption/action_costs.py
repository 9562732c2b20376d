"""The cost of each preemption action to the victim.

The cheapest action that frees enough is taken, so these figures decide between offloading and evicting a job. Reasons and
events report them as well.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from laneway.scheduling.model.plan import PreemptionAction
from laneway.scheduling.model.snapshot import Job, JobState

_GIB = 2**30


@dataclass(frozen=True, slots=True)
class ActionCosts:
    """Parameters that preemption policies have in common: the time lost on every GPU of the job, there and back, without the time
    that it waits."""

    pause_seconds: float = 0.2
    """To stop at the end of an iteration, and to begin the next one. Gandiva (OSDI'18, section 4.1): typically 0.1 s each."""

    moved_seconds_per_gib: float = 0.2
    """To bring a worker's persistent memory to the host and back; all of a job's workers copy at the same time. 10 GiB/s each way,
    between copies of pageable and of pinned memory over PCIe 3."""

    eviction_seconds: float = 50.0
    """To save a checkpoint and end, to start again and to load it: 40 to 62 s (Tiresias, section 5; Lucid, section 2)."""

    paused_eviction_seconds: float = 30.0
    """The same for a job that is paused or offloaded already. Its workers stand still: nothing is lost but by the start, the restart
    penalty of Pollux' simulator (OSDI'21, section 5.3)."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) >= 0:
                raise ValueError(f"{field.name} is {getattr(self, field.name)}: write 0 or more")

    def cost_seconds(self, job: Job, action: PreemptionAction, held_bytes: int) -> float:
        """Return what an action costs on each of the job's GPUs. A paused job pays only the difference.

        Args:
            job: it runs, or is paused or offloaded.
            action: no shallower than it is now.
            held_bytes: the most that one of its workers keeps on a GPU between two iterations.
        """
        is_paused = job.state in (JobState.PAUSED, JobState.OFFLOADED)
        if action is PreemptionAction.EVICT:
            return self.paused_eviction_seconds if is_paused else self.eviction_seconds
        moves = action is PreemptionAction.OFFLOAD and job.state is not JobState.OFFLOADED
        moved_seconds = self.moved_seconds_per_gib * held_bytes / _GIB if moves else 0.0
        return moved_seconds if is_paused else self.pause_seconds + moved_seconds
