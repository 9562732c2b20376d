"""Answers preemption policies: would the gang fit if these victims released their GPUs?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from laneway.scheduling.framework.statement import NO_VICTIMS, Actions, Placement, Statement
from laneway.scheduling.model.plan import PreemptionAction
from laneway.scheduling.model.snapshot import Job
from laneway.scheduling.state.scheduler_state import SchedulerState


class PreemptionScenario:
    """Tries sets of victims on a statement, and implements :class:`laneway.scheduling.preemption.policy.Scenario`.

    Consecutive calls have most victims in common, so only the difference is applied.
    """

    def __init__(
        self,
        state: SchedulerState,
        statement: Statement,
        job: Job,
        place: Callable[[], Placement | None],
        may_evict: Callable[[Job], bool],
    ) -> None:
        """Prepare.

        Args:
            state: read only.
            statement: changed by every question.
            job: the preemptor.
            place: finds a place for the gang in FUTURE_IDLE.
            may_evict: whether a victim may be evicted; else it may only be paused and offloaded.
        """
        self.may_evict = may_evict
        self._allocations = state.allocations
        self._statement = statement
        self._job = job
        self._place = place
        self._answer: tuple[int, Placement | None] = (-1, None)
        """How often the statement had changed when the place was searched, and the place."""

    def fits_without(self, victims: Sequence[Job]) -> bool:
        """Whether the gang fits if exactly these victims are gone."""
        return self.placement_without(victims) is not None

    def in_the_way(self, victims: Sequence[Job]) -> list[Job]:
        """Return the victims that hold what the gang would be placed on if all of them were gone."""
        placement = self.placement_without(victims)
        if placement is None:
            return list(victims)
        there = set(self._allocations.releasing_for(self._job, placement))
        return [victim for victim in victims if victim.key in there]

    def placement_without(self, victims: Sequence[Job], actions: Actions = NO_VICTIMS) -> Placement | None:
        """Return where the gang fits if these victims are preempted; those without an action by the one that frees most."""
        wanted = {victim.key: actions.get(victim.key) or self._most(victim) for victim in victims}
        self._statement.preempt(wanted)
        if self._answer[0] != self._statement.changes:
            self._answer = (self._statement.changes, self._place())
        return self._answer[1]

    def _most(self, victim: Job) -> PreemptionAction:
        return PreemptionAction.EVICT if self.may_evict(victim) else PreemptionAction.OFFLOAD
