"""A trace: jobs with the time at which they were submitted and the time that they run."""

from __future__ import annotations

from dataclasses import dataclass

from laneway.scheduling import Demand, Profile


class TraceError(ValueError):
    """A trace file that cannot be read; the message names the file, the line and what to write."""


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace."""

    key: str
    """``namespace/name``."""

    demand: Demand
    submit_seconds: float
    duration_seconds: float
    """How long it runs on what it demands, undisturbed."""

    priority: int = 0
    profile: Profile | None = None
    """What a worker's iterations need of the GPU's memory and time; None where the trace does not say."""

    model: str = ""
    """What it trains, where the trace says so; empty: not known."""

    user: str = ""
    """Who submitted it, where the trace says so; its namespace is the tenant that fairness counts."""

    def __post_init__(self) -> None:
        if self.submit_seconds < 0:
            raise ValueError(f"submit_seconds of job {self.key} is {self.submit_seconds}: write 0 or more")
        if self.duration_seconds <= 0:
            raise ValueError(
                f"duration_seconds of job {self.key} is {self.duration_seconds}: write more than 0"
            )
