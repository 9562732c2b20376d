"""Preemption in place: a job is paused, or its memory moved to the host, while its pods stay.

    status.preemption (what is meant, written first) ─▶ orders in GPUNode.spec ─▶ sessions' states ─▶ Running=False: Paused

The operator keeps no other state about a preemption: the status holds the intent, and the GPUNode holds the orders and what
the node has done. If the nodes do not comply in time, the job is evicted instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from laneway.api.gpu_node import SessionState
from laneway.api.job_conditions import ConditionType
from laneway.api.rfc3339 import parse_time
from laneway.api.training_job_status import TrainingJobStatus
from laneway.operator.lifecycle import transitions
from laneway.operator.lifecycle.reconciled_job import ReconcileContext
from laneway.operator.lifecycle.unsaved_work import loses_much
from laneway.operator.state.records.gpu_node_record import awaits_memory
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.operator.state.sessions import SessionIndex, noteworthy
from laneway.scheduling import JobState, PreemptionAction

_MOVING = {PreemptionAction.PAUSE: JobState.PAUSING, PreemptionAction.OFFLOAD: JobState.OFFLOADING}
_STILL = {PreemptionAction.PAUSE: JobState.PAUSED, PreemptionAction.OFFLOAD: JobState.OFFLOADED}
_DONE = {
    PreemptionAction.PAUSE: frozenset({SessionState.PAUSED, SessionState.OFFLOADED}),
    PreemptionAction.OFFLOAD: frozenset({SessionState.OFFLOADED}),
}
_CONNECTED = frozenset(
    {SessionState.WAITING, SessionState.HOLDING, SessionState.PAUSED, SessionState.OFFLOADED}
)
WORDS = {PreemptionAction.PAUSE: "pause", PreemptionAction.OFFLOAD: "offload its memory to the host"}


@dataclass(frozen=True, slots=True)
class PauseProgress:
    """How far a job has come that was told to pause or offload."""

    state: JobState
    """As the planner is to see it."""

    just_done: bool = False
    """Its nodes say for the first time that it has."""

    in_vain: str = ""
    """Why it has to end instead, as a sentence; empty where it has not."""

    due_seconds: float = math.inf
    """When it has to end instead, if nothing changes."""


def pause_action(status: TrainingJobStatus) -> PreemptionAction | None:
    """Return whether a job was told to pause or to offload; None where it was told neither."""
    depth = None if status.preemption is None else PreemptionAction(status.preemption.action)
    return None if depth is PreemptionAction.EVICT else depth


def can_pause(pods: Sequence[WorkerPod], sessions: SessionIndex) -> bool:
    """Whether all workers have a client that answers: who has none cannot stop between two iterations."""
    return bool(pods) and all(
        held and all(state in _CONNECTED for state in held)
        for held in (_states(pod, sessions) for pod in pods if not pod.ended)
    )


def coming_back_until_seconds(
    status: TrainingJobStatus, pods: Sequence[WorkerPod], context: ReconcileContext
) -> float:
    """Return until when a resumed job's nodes have time to report that it runs; infinite if they have, or the time is over.

    Until then the nodes still report the earlier pause, so a new order to pause would seem to be done already, or its memory is not back.
    """
    since_seconds = transitions.since_seconds(status, ConditionType.RUNNING, context.now_seconds)
    until_seconds = since_seconds + context.timeouts.pause_seconds
    held = [hold.session for pod in pods for hold in context.state.sessions.of(pod)]
    stands = any(each.state in _DONE[PreemptionAction.PAUSE] or awaits_memory(each) for each in held)
    return until_seconds if stands and context.now_seconds < until_seconds else math.inf


def look(
    status: TrainingJobStatus,
    depth: PreemptionAction,
    pods: Sequence[WorkerPod],
    context: ReconcileContext,
) -> PauseProgress:
    """Return how far the job has come, by its nodes' word."""
    sessions, timeouts, now_seconds = context.state.sessions, context.timeouts, context.now_seconds
    preemption = status.preemption
    assert preemption is not None
    if preemption.reached_at is not None:
        due_seconds = parse_time(preemption.reached_at) + timeouts.paused_seconds
        if loses_much(status, now_seconds):
            return PauseProgress(_STILL[depth])  # its work is safer where it is than elsewhere
        if now_seconds >= due_seconds:
            text = f"it was paused for {timeouts.paused_seconds} s and is evicted now, so that it can run elsewhere"
            return PauseProgress(_STILL[depth], in_vain=text)
        return PauseProgress(_STILL[depth], due_seconds=due_seconds)
    if _followed(depth, pods, sessions):
        return PauseProgress(_STILL[depth], just_done=True)
    due_seconds = parse_time(preemption.since) + timeouts.pause_seconds
    if now_seconds >= due_seconds:
        said = "; ".join(dict.fromkeys(text for pod in pods if (text := noteworthy(pod, sessions))))
        text = f"it was told to {WORDS[depth]} and had not {timeouts.pause_seconds} s later"
        return PauseProgress(_MOVING[depth], in_vain=f"{text}: {said}" if said else text)
    return PauseProgress(_MOVING[depth], due_seconds=due_seconds)


def _followed(depth: PreemptionAction, pods: Sequence[WorkerPod], sessions: SessionIndex) -> bool:
    held = [_states(pod, sessions) for pod in pods if not pod.ended]
    return bool(held) and all(states and all(state in _DONE[depth] for state in states) for states in held)


def _states(pod: WorkerPod, sessions: SessionIndex) -> list[SessionState]:
    return [SessionState(hold.session.state) for hold in sessions.of(pod) if not hold.ended]
