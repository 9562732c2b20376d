"""Decides whether a changed status is worth a write of the GPUNode: pure.

Sessions that train change figures all the time (turns, iterations, the script's report). Everything else is what others act on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from laneway.api.gpu_node import GPUNodeStatus, GPUStatus, SessionState, SessionStatus

_COUNTS: Final = (
    "turns",
    "iterations",
    "gpu_milliseconds",
    "data_milliseconds",
    "iteration_microseconds",
    "iteration_spread_microseconds",
    "data_microseconds",
    "held_bytes",
    "offloaded_bytes",
)
_NO_COUNTS: Final = dict.fromkeys(_COUNTS, 0)

_MATERIAL_PERCENT: Final = 10
"""A figure that changed by more than this is news soon, a smaller change later."""

_LATER: Final = 4
"""Intervals until small changes are written."""


def due(
    written: GPUNodeStatus | None, status: GPUNodeStatus, since_write_seconds: float, interval_seconds: float
) -> bool:
    """Return whether a status is to be written now.

    Args:
        written: the status that was written last; None: none was.
        status: the current one.
        since_write_seconds: time since that write.
        interval_seconds: shortest time between two writes for figures alone.
    """
    if written is None or _state(written) != _state(status):
        return True
    if since_write_seconds < interval_seconds:
        return False
    if since_write_seconds >= _LATER * interval_seconds:
        return written.gpus != status.gpus
    before = dict(_sessions(written))
    return any(_material(before[key], session) for key, session in _sessions(status))


def _state(status: GPUNodeStatus) -> tuple[object, ...]:
    """Return a status without figures."""
    gpus = tuple(
        gpu.model_copy(update={"sessions": tuple(map(_session_state, gpu.sessions))}) for gpu in status.gpus
    )
    devices = status.device_strategy, status.device_strategy_reason
    return status.conditions, status.other_pods_requests, devices, gpus


def _session_state(session: SessionStatus) -> tuple[object, ...]:
    """Return a session without figures: which one of a lane has the turn is a figure, its first turn is none.

    How much memory is on the host is a figure, and whether any is there is none.
    """
    state = SessionState.WAITING if session.state == SessionState.HOLDING else session.state
    said = session.report is None, session.saved_work is None, session.batch is None
    first = session.turns > 0, session.iterations > 0, session.offloaded_bytes > 0, *said
    bare = session.model_copy(
        update={**_NO_COUNTS, "state": state, "report": None, "saved_work": None, "batch": None}
    )
    return bare, *first


def _sessions(status: GPUNodeStatus) -> Iterator[tuple[tuple[str, str], SessionStatus]]:
    gpus: tuple[GPUStatus, ...] = status.gpus
    return (((gpu.uuid, session.key), session) for gpu in gpus for session in gpu.sessions)


def _material(before: SessionStatus, after: SessionStatus) -> bool:
    if (before.saved_work, before.batch) != (after.saved_work, after.batch):
        return True
    pairs = [(getattr(before, name), getattr(after, name)) for name in _COUNTS]
    if before.report is not None and after.report is not None:
        for name in ("step", "remaining_seconds"):
            pairs.append((getattr(before.report, name) or 0, getattr(after.report, name) or 0))
    return any(abs(now - then) * 100 > _MATERIAL_PERCENT * then for then, now in pairs)
