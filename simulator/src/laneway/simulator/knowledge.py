"""What the scheduler knows about a job of a trace: never its remaining time, and its profile no earlier than in a cluster."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from laneway.simulator.trace import TraceJob


@dataclass(frozen=True, slots=True)
class Knowledge:
    """When profiles are known, and how precise expected durations are."""

    profiled: bool = False
    """Whether profiles are known from the start, like those of templates that have run before (Muri-L, SIGCOMM'22, section 5, profiles
    every job in advance). False: a job's profile is known after its first iterations."""

    profile_iterations: float = 3.0
    """The number of these iterations; Laneway's client reports after 3."""

    expected_error_ratio: float = 0.0
    """The error of expected durations: the standard deviation of the natural logarithm of expected over real. 0: policies read the
    duration of the trace."""

    seed: float = 0.0
    """The seed of that error. Each job's error is independent of the other jobs."""

    def __post_init__(self) -> None:
        for name in ("profile_iterations", "expected_error_ratio"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: write 0 or more")

    def expected_seconds(self, job: TraceJob) -> float:
        """Return the expected total duration of a job."""
        expected_seconds = job.duration_seconds if job.expected_seconds is None else job.expected_seconds
        if not self.expected_error_ratio:
            return expected_seconds
        error = random.Random(f"{self.seed}/{job.key}").gauss(0.0, self.expected_error_ratio)
        return expected_seconds * math.exp(error)

    def profiling_seconds(self, job: TraceJob) -> float:
        """Return the work that a job does before its profile is known."""
        if self.profiled or job.profile is None:
            return 0.0
        return self.profile_iterations * job.profile.iteration_seconds
