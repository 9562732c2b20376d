"""The events of a simulation."""

from __future__ import annotations

from enum import IntEnum


class Event(IntEnum):
    """The kind of an event; at the same time, the smaller comes first."""

    FINISH = 0
    GONE = 1
    STARTED = 2
    MEASURED = 3
    """The speed of a job beside others is known."""

    MILESTONE = 4
    SUBMIT = 5
    NOTICED = 6
    """The operator knows that a job has finished."""

    ROLLED_BACK = 7
    """The operator gives up an attempt that has not started."""

    FAILED = 8
    """A worker fails."""

    LOST = 9
    """The operator gives up the workers on a failed node."""

    REVIEW = 10
    """A job's back-off ends, it need not avoid a node any more, or its refusal is to be looked at."""

    NODE_DOWN = 11
    NODE_NOT_READY = 12
    NODE_UP = 13


OF_NODES = frozenset({Event.NODE_DOWN, Event.NODE_NOT_READY, Event.NODE_UP})
OF_A_STATE = frozenset(
    {Event.FINISH, Event.GONE, Event.STARTED, Event.MEASURED, Event.MILESTONE, Event.ROLLED_BACK, Event.LOST}
)
"""Void once the job has left the state or speed for which they were scheduled."""

WITHOUT_PROGRESS = OF_NODES | {Event.GONE, Event.ROLLED_BACK, Event.LOST, Event.REVIEW}
"""They go on for ever while nodes fail and gangs are refused, though no job ever runs."""
