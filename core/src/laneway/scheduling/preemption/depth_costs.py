"""What making way costs whoever does it, by how far it goes.

The cheapest depth that frees enough is taken, so these figures decide between moving a job's memory to the host and ending it; and
they are told to whoever asks what a preemption costs.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from laneway.scheduling.plan_types import Depth
from laneway.scheduling.snapshot import Job, JobState

_GIB = 2**30


@dataclass(frozen=True, slots=True)
class DepthCosts:
    """Parameters that preemption policies have in common. Each is the time that is lost on every GPU of the job: there and back, what
    it waits for its turn not counted."""

    pause_seconds: float = 0.2
    """To stop at the end of an iteration, and to begin the next one. Gandiva (OSDI'18, section 4.1): typically 0.1 s each."""

    moved_seconds_per_gib: float = 0.2
    """To bring a worker's persistent memory to the host and back; all of a job's workers copy at the same time. 10 GiB/s each way,
    between copies of pageable and of pinned memory over PCIe 3."""

    eviction_seconds: float = 50.0
    """To save a checkpoint and end, to start again and to load it: 40 to 62 s (Tiresias, section 5; Lucid, section 2)."""

    parked_seconds: float = 30.0
    """The same for a job that is paused or offloaded already. Its workers stand still: nothing is lost but by the start, the restart
    penalty of Pollux' simulator (OSDI'21, section 5.3)."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) >= 0:
                raise ValueError(f"{field.name} is {getattr(self, field.name)}: write 0 or more")

    def cost_seconds(self, job: Job, depth: Depth, held_bytes: int) -> float:
        """Return what it costs on each of its GPUs that a job makes way so far. One that stands aside already pays the difference only.

        Args:
            job: it runs, or is paused or offloaded.
            depth: no shallower than it is now.
            held_bytes: the most that one of its workers keeps on a GPU between two iterations.
        """
        stands_aside = job.state in (JobState.PAUSED, JobState.OFFLOADED)
        if depth is Depth.EVICT:
            return self.parked_seconds if stands_aside else self.eviction_seconds
        moves = depth is Depth.OFFLOAD and job.state is not JobState.OFFLOADED
        moved_seconds = self.moved_seconds_per_gib * held_bytes / _GIB if moves else 0.0
        return moved_seconds if stands_aside else self.pause_seconds + moved_seconds
