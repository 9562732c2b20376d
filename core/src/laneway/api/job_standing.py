"""Parts of a TrainingJob's status: why it waits and what would let it run, what it keeps away from, for whom it made way."""

from __future__ import annotations

from typing import Literal

from laneway.api.schema import Status
from pydantic import Field


class WaitingStatus(Status):
    """Why a job waits, and what would let it run."""

    reason: str = Field(description="Why, as one CamelCase word that programs may rely on.")
    message: str = Field(description="Why, as a sentence.")
    unblock: str = Field(default="", description="What change would let it run.")
    position: int = Field(default=0, description="Its place among the waiting jobs, 1 is next.", ge=0)
    since: str | None = Field(
        default=None, description="Since when it waits.", json_schema_extra={"format": "date-time"}
    )
    blockers: tuple[str, ...] = Field(
        default=(), description="The jobs that hold what it waits for, where they can be named."
    )
    ahead: tuple[str, ...] = Field(
        default=(), description="Waiting jobs that go before it: the next ones, at most five."
    )
    estimated_start: str | None = Field(
        default=None,
        description="When it may start, an estimate: jobs that run are taken to go on for as long as they say, as others of their "
        "template ran, or for as long again as they have run.",
        json_schema_extra={"format": "date-time"},
    )
    estimate_basis: str = Field(default="", description="What the estimate rests on, as a sentence.")
    alternatives: tuple[str, ...] = Field(
        default=(),
        description="Changes of the spec with each of which it would start now: tried, not guessed.",
    )
    advised_at: str | None = Field(
        default=None,
        description="When the estimate and the alternatives were worked out.",
        json_schema_extra={"format": "date-time"},
    )


class AvoidedNodeStatus(Status):
    """A node that the job is kept away from for a while."""

    node: str = Field(description="The node.")
    until: str = Field(description="Until when.", json_schema_extra={"format": "date-time"})
    message: str = Field(default="", description="What went wrong there, as a sentence.")


class NodeFailuresStatus(Status):
    """How often workers of the job failed on a node lately."""

    node: str = Field(description="The node.")
    count: int = Field(description="Failures there in a row of less than an hour between two.", ge=1)
    last: str = Field(description="When the last one was.", json_schema_extra={"format": "date-time"})


class PreemptionStatus(Status):
    """How a job makes way, or made way the last time: for whom, how far, and how far it has come."""

    depth: Literal["Pause", "Offload", "Evict"] = Field(
        description="Pause: it stops between two iterations, memory stays. Offload: then its memory goes to the host. Evict: it ends, and "
        "starts again from its checkpoint."
    )
    beneficiary: str = Field(default="", description="The job that it makes way for, as namespace/name.")
    reason: str = Field(default="", description="Why, as the condition Preempted has it: one CamelCase word.")
    message: str = Field(default="", description="Why, as a sentence.")
    cost: str = Field(
        default="",
        description="What that is expected to cost on each of its GPUs beside the wait, in seconds; left out where nothing is known of it.",
    )
    since: str = Field(description="When it was told to make way.", json_schema_extra={"format": "date-time"})
    reached_at: str | None = Field(
        default=None,
        description="When its nodes said that it had paused, or that its memory was on the host.",
        json_schema_extra={"format": "date-time"},
    )
