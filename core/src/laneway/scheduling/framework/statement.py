"""A statement: changes of the allocations that take effect together, or not at all.

An action opens a statement, adds operations, and commits it or rolls it back, as in KAI and Volcano. Preemptions show in the
view FUTURE_IDLE at once, because that is where a place for the preemptor is searched. All other operations, and all other
views, change with :meth:`Statement.commit`. So between the first operation and the end of a statement, only FUTURE_IDLE may
be read.

What a cycle commits is an assumption until it is observed. The state undoes it before the next cycle, except for what has
been observed by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from laneway.scheduling.gpus.allocation import AllocationStatus
from laneway.scheduling.model.plan import PreemptionAction
from laneway.scheduling.model.snapshot import Job, WorkerPlacement
from laneway.scheduling.state.scheduler_state import SchedulerState

Placement = tuple[WorkerPlacement, ...]
Actions = Mapping[str, PreemptionAction]
"""The preemption action of each victim."""

NO_VICTIMS: Actions = MappingProxyType({})


class Statement:
    """Operations on the allocations, until they are committed or rolled back."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._allocations = state.allocations
        self._preempted: dict[str, PreemptionAction] = {}
        self._status_before: dict[str, AllocationStatus] = {}
        """Of the preempted jobs."""

        self.changes = 0
        """Counts the changes of its preemptions."""

        self._placed: list[tuple[Job, Placement, AllocationStatus]] = []
        self._resumed: list[str] = []

    def preempt(self, victims: Actions) -> None:
        """Make these the statement's preemptions; a victim of an earlier call that is not named any more keeps its GPUs."""
        dropped = [key for key in self._preempted if key not in victims]
        for key in dropped:
            del self._preempted[key]
            self._allocations.try_status(key, self._status_before.pop(key), PreemptionAction.EVICT)
        changed = [key for key, action in victims.items() if self._preempted.get(key) is not action]
        for key in changed:
            self._status_before.setdefault(key, self._allocations.of_job[key].status)
            self._preempted[key] = victims[key]
            self._allocations.try_status(key, AllocationStatus.RELEASING, victims[key])
        self.changes += bool(dropped or changed)

    def allocate(self, job: Job, placement: Placement) -> None:
        """Give a job idle GPUs: it starts."""
        self._placed.append((job, placement, AllocationStatus.ALLOCATED))

    def pipeline(self, job: Job, placement: Placement) -> None:
        """Keep GPUs for a job until the jobs that release them are gone."""
        self._placed.append((job, placement, AllocationStatus.PIPELINED))

    def resume(self, key: str) -> None:
        """Let a paused job take turns again."""
        self._resumed.append(key)

    def checkpoint(self) -> Actions:
        """Return the preemptions so far, to go back to with :meth:`rollback`."""
        return MappingProxyType(dict(self._preempted))

    def rollback(self, checkpoint: Actions = NO_VICTIMS) -> None:
        """Go back to a checkpoint, by default to the beginning; operations other than preemptions are dropped."""
        self.preempt(checkpoint)
        self._placed.clear()
        self._resumed.clear()

    def commit(self) -> None:
        """Let all operations take effect, in every view. The statement ends."""
        for key, action in self._preempted.items():
            self._allocations.release(key, action)
            self._state.mark_assumed(key)
        for key in self._resumed:
            self._allocations.resume(key)
            self._state.mark_assumed(key)
        for job, placement, status in self._placed:
            self._allocations.add(job, placement, status, None)
            self._state.mark_assumed(job.key, starts=status is AllocationStatus.ALLOCATED)
