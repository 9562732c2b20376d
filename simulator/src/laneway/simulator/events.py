"""The events of a simulation."""

from __future__ import annotations

from enum import IntEnum


class Event(IntEnum):
    """The kind of an event; at the same time, the smaller comes first."""

    FINISH = 0
    GONE = 1
    STARTED = 2
    MILESTONE = 3
    SUBMIT = 4
    NOTICED = 5
    """The operator knows that a job has finished."""

    ROLLED_BACK = 6
    """The operator gives up an attempt that has not started."""

    FAILED = 7
    """A worker fails."""

    LOST = 8
    """The operator gives up the workers on a failed node."""

    REVIEW = 9
    """A job's back-off ends, it need not avoid a node any more, or its refusal is to be looked at."""

    NODE_DOWN = 10
    NODE_NOT_READY = 11
    NODE_UP = 12


OF_NODES = frozenset({Event.NODE_DOWN, Event.NODE_NOT_READY, Event.NODE_UP})
OF_A_STATE = frozenset(
    {Event.FINISH, Event.GONE, Event.STARTED, Event.MILESTONE, Event.ROLLED_BACK, Event.LOST}
)
"""Void once the job has left the state or speed for which they were scheduled."""

WITHOUT_PROGRESS = OF_NODES | {Event.GONE, Event.ROLLED_BACK, Event.LOST, Event.REVIEW}
"""They go on for ever while nodes fail and gangs are refused, though no job ever runs."""
