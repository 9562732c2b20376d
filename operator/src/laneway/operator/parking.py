"""Making way without ending: a job is paused, or its memory moved to the host, while its pods stay.

    status.preemption (what is meant, written first) ─▶ orders in GPUNode.spec ─▶ sessions' states ─▶ Running=False: Paused

Nothing of it is remembered: who reads the status knows what was meant, and who reads the GPUNode what was ordered, and what
was done. Where the nodes do not do it in time, the job makes way by ending instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from laneway.api.clock_text import to_seconds
from laneway.api.gpu_node import SessionState
from laneway.api.training_job import ConditionType, TrainingJobStatus
from laneway.operator import transitions
from laneway.operator.config import PatienceConfig
from laneway.operator.records.worker_pod import WorkerPod
from laneway.operator.sessions import SessionIndex, noteworthy
from laneway.scheduling import Depth, JobState

_MOVING = {Depth.PAUSE: JobState.PAUSING, Depth.OFFLOAD: JobState.OFFLOADING}
_STILL = {Depth.PAUSE: JobState.PAUSED, Depth.OFFLOAD: JobState.OFFLOADED}
_DONE = {
    Depth.PAUSE: frozenset({SessionState.PAUSED, SessionState.OFFLOADED}),
    Depth.OFFLOAD: frozenset({SessionState.OFFLOADED}),
}
_CONNECTED = frozenset(
    {SessionState.WAITING, SessionState.HOLDING, SessionState.PAUSED, SessionState.OFFLOADED}
)
WORDS = {Depth.PAUSE: "pause", Depth.OFFLOAD: "move its memory to the host"}


@dataclass(frozen=True, slots=True)
class Parking:
    """How far a job has come that was told to make way without ending."""

    state: JobState
    """As the planner is to see it."""

    just_done: bool = False
    """Its nodes say for the first time that it has."""

    in_vain: str = ""
    """Why it has to end instead, as a sentence; empty where it has not."""

    due_seconds: float | None = None
    """When it has to end instead, if nothing changes."""


def parking_depth(status: TrainingJobStatus) -> Depth | None:
    """Return how far a job was told to make way without ending; None where it was not."""
    depth = None if status.preemption is None else Depth(status.preemption.depth)
    return None if depth is Depth.EVICT else depth


def can_park(pods: Sequence[WorkerPod], sessions: SessionIndex) -> bool:
    """Whether all workers have a client that answers: who has none cannot stop between two iterations."""
    return bool(pods) and all(
        held and all(state in _CONNECTED for state in held)
        for held in (_states(pod, sessions) for pod in pods if not pod.ended)
    )


def coming_back_until_seconds(
    status: TrainingJobStatus,
    pods: Sequence[WorkerPod],
    sessions: SessionIndex,
    patience: PatienceConfig,
    now_seconds: float,
) -> float | None:
    """Return until when a job that goes on is given time to do so; None where its nodes say that it does, or had their time.

    Told to pause again before, it would seem to have done so already: what its nodes say is still the answer to the order before.
    """
    since_seconds = transitions.since_seconds(status, ConditionType.RUNNING, now_seconds)
    until_seconds = since_seconds + patience.park_seconds
    stands = any(state in _DONE[Depth.PAUSE] for pod in pods for state in _states(pod, sessions))
    return until_seconds if stands and now_seconds < until_seconds else None


def look(
    status: TrainingJobStatus,
    depth: Depth,
    pods: Sequence[WorkerPod],
    sessions: SessionIndex,
    patience: PatienceConfig,
    now_seconds: float,
) -> Parking:
    """Return how far the job has come, by its nodes' word."""
    making_way = status.preemption
    assert making_way is not None
    if making_way.reached_at is not None:
        due_seconds = to_seconds(making_way.reached_at) + patience.parked_seconds
        if now_seconds >= due_seconds:
            text = (
                f"it has stood aside for {patience.parked_seconds} s, and ends now to compete for other GPUs"
            )
            return Parking(_STILL[depth], in_vain=text)
        return Parking(_STILL[depth], due_seconds=due_seconds)
    if _followed(depth, pods, sessions):
        return Parking(_STILL[depth], just_done=True)
    due_seconds = to_seconds(making_way.since) + patience.park_seconds
    if now_seconds >= due_seconds:
        said = "; ".join(dict.fromkeys(text for pod in pods if (text := noteworthy(pod, sessions))))
        text = f"it was told to {WORDS[depth]} and had not {patience.park_seconds} s later"
        return Parking(_MOVING[depth], in_vain=f"{text}: {said}" if said else text)
    return Parking(_MOVING[depth], due_seconds=due_seconds)


def _followed(depth: Depth, pods: Sequence[WorkerPod], sessions: SessionIndex) -> bool:
    held = [_states(pod, sessions) for pod in pods if not pod.ended]
    return bool(held) and all(states and all(state in _DONE[depth] for state in states) for states in held)


def _states(pod: WorkerPod, sessions: SessionIndex) -> list[SessionState]:
    return [SessionState(hold.session.state) for hold in sessions.of(pod) if not hold.ended]
