"""Picks the cheapest sufficient action (pause, offload, evict) for each victim."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.scheduling.framework.scenario import PreemptionScenario
from laneway.scheduling.framework.statement import Actions, Placement
from laneway.scheduling.model.plan import PreemptionAction
from laneway.scheduling.model.snapshot import Job, JobState
from laneway.scheduling.model.tenants import kept_bytes
from laneway.scheduling.state.scheduler_state import SchedulerState

_ACTIONS_FROM = {
    JobState.RUNNING: (PreemptionAction.PAUSE, PreemptionAction.OFFLOAD, PreemptionAction.EVICT),
    JobState.PAUSED: (PreemptionAction.OFFLOAD, PreemptionAction.EVICT),
}


def cheapest_actions(
    scenario: PreemptionScenario, victims: Sequence[Job], state: SchedulerState
) -> tuple[Actions, Placement] | None:
    """Return the action for each victim, and the gang's placement after them.

    All victims move to the next costlier action together, until the gang fits. Then each victim, the costliest first, gets
    the cheapest action with which the gang still fits.

    None if no combination is enough: a placement policy of another package may prefer GPUs with more sharers.
    """
    options = {victim.key: _options(victim, state, scenario.may_evict(victim)) for victim in victims}
    for step in range(max(len(each) for each in options.values())):
        actions = {key: each[min(step, len(each) - 1)] for key, each in options.items()}
        if scenario.placement_without(victims, actions) is not None:
            break
    else:
        return None
    if step > 0 and len(victims) > 1:
        for victim in sorted(victims, key=lambda job: (-cost_seconds(job, actions[job.key], state), job.key)):
            for cheaper in options[victim.key][:step]:
                tried = {**actions, victim.key: cheaper}
                if cheaper is actions[victim.key] or scenario.placement_without(victims, tried) is not None:
                    actions = tried
                    break
    placement = scenario.placement_without(victims, actions)
    return None if placement is None else (actions, placement)


def cost_seconds(victim: Job, action: PreemptionAction, state: SchedulerState) -> float:
    """Return what an action costs on each of the victim's GPUs, in seconds."""
    gpus, shares = state.allocations.gpus, state.allocations.of_job[victim.key].shares
    held_bytes = max((kept_bytes(victim, gpus[number], percent) for number, percent in shares), default=0)
    measured = [each for number, _ in shares if (each := gpus[number].moved_seconds_per_gib) is not None]
    return state.policies.preemption.cost_seconds(victim, action, held_bytes, max(measured, default=None))


def _options(victim: Job, state: SchedulerState, may_evict: bool) -> tuple[PreemptionAction, ...]:
    """Return the possible actions on a victim, the cheapest first."""
    if not state.allocations.supports_pausing or not victim.pausable:
        return (PreemptionAction.EVICT,)
    possible = _ACTIONS_FROM.get(victim.state, (PreemptionAction.EVICT,))
    if not may_evict:
        possible = tuple(action for action in possible if action is not PreemptionAction.EVICT)
    return tuple(sorted(possible, key=lambda action: cost_seconds(victim, action, state)))
