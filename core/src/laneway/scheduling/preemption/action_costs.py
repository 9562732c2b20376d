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
    """Parameters common to preemption policies: the time lost on every GPU of the job by stopping and resuming, without its
    waiting time."""

    pause_seconds: float = 0.2
    """The time to stop at the end of an iteration and begin the next one. Gandiva (OSDI'18, section 4.1): typically 0.1 s
    each."""

    moved_seconds_per_gib: float = 0.2
    """The time per GiB to copy a worker's persistent memory to the host and back, until the GPU's node has measured it; the workers of
    a job copy in parallel. 10 GiB/s each way lies between pageable and pinned memory over PCIe 3."""

    eviction_seconds: float = 50.0
    """The time to save a checkpoint and end, then to start again and load it: 40 to 62 s (Tiresias, section 5; Lucid, section
    2)."""

    paused_eviction_seconds: float = 30.0
    """The same for a job that is already paused or offloaded. Its workers are idle, so only the start costs: the restart
    penalty of Pollux' simulator (OSDI'21, section 5.3)."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) >= 0:
                raise ValueError(f"{field.name} is {getattr(self, field.name)}: write 0 or more")

    def cost_seconds(
        self,
        job: Job,
        action: PreemptionAction,
        held_bytes: int,
        moved_seconds_per_gib: float | None = None,
    ) -> float:
        """Return what an action costs on each of the job's GPUs. A paused job pays only the difference.

        Args:
            job: it runs, or is paused or offloaded.
            action: no shallower than it is now.
            held_bytes: the most that one of its workers keeps on a GPU between two iterations.
            moved_seconds_per_gib: the time to move a GiB to the host and back that the slowest of its GPUs showed; None: not measured,
                so the parameter counts.
        """
        is_paused = job.state in (JobState.PAUSED, JobState.OFFLOADED)
        if action is PreemptionAction.EVICT:
            return self.paused_eviction_seconds if is_paused else self.eviction_seconds
        moves = action is PreemptionAction.OFFLOAD and job.state is not JobState.OFFLOADED
        per_gib = self.moved_seconds_per_gib if moved_seconds_per_gib is None else moved_seconds_per_gib
        moved_seconds = per_gib * held_bytes / _GIB if moves else 0.0
        return moved_seconds if is_paused else self.pause_seconds + moved_seconds
