"""A trace: jobs with the time at which they were submitted and the time that they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from laneway.scheduling import Demand, Profile
from laneway.scheduling.allocation.sensitivity import Sensitivity
from laneway.simulator.training import Training


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

    expected_seconds: float | None = None
    """How long it runs as far as policies that ask for durations are told; None: ``duration_seconds``."""

    sensitivity: Sensitivity | None = None
    """How its throughput depends on CPUs and memory; None where nobody measured it."""

    training: Training | None = None
    """How fast it gets on with any workers and batch size; None where the trace does not say."""

    def __post_init__(self) -> None:
        if self.submit_seconds < 0:
            raise ValueError(f"submit_seconds of job {self.key} is {self.submit_seconds}: write 0 or more")
        if self.duration_seconds <= 0:
            raise ValueError(
                f"duration_seconds of job {self.key} is {self.duration_seconds}: write more than 0"
            )
        if self.expected_seconds is not None and self.expected_seconds <= 0:
            raise ValueError(
                f"expected_seconds of job {self.key} is {self.expected_seconds}: write more than 0, or nothing"
            )


@dataclass(frozen=True, slots=True)
class TraceRead:
    """What was read of a trace file, and what of it was not."""

    jobs: tuple[TraceJob, ...]
    """Ordered by submission."""

    form: str
    """The name of the format in which the file is."""

    left_out: Mapping[str, int]
    """Jobs of the file that are not among ``jobs``: how many, by reason; the reason is a clause, "it uses no GPU"."""

    def summary(self) -> str:
        """Return the counts in a line: ``12 jobs (helios); left out: 3 (it uses no GPU), 1 (it never ran)``."""
        line = f"{len(self.jobs)} jobs ({self.form})"
        if self.left_out:
            line += "; left out: " + ", ".join(
                f"{self.left_out[why]} ({why})" for why in sorted(self.left_out)
            )
        return line
