"""What a scheduler may know of a job of a trace: never what is left of it, and its profile no earlier than a cluster would."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from laneway.simulator.trace import TraceJob


@dataclass(frozen=True, slots=True)
class Knowledge:
    """When profiles are known, and how good the expectation of a job's duration is."""

    profiled: bool = False
    """Whether profiles are known from the start, as those of templates that have run before (Muri-L, SIGCOMM'22, section 5, profiles
    every job in advance). False: a job's profile is known when it has done its first iterations."""

    profile_iterations: float = 3.0
    """So many iterations does it take; Laneway's client reports after 3."""

    expected_error_ratio: float = 0.0
    """How far the expected duration, which policies that ask for durations read, is off: the standard deviation of the natural
    logarithm of expected over real. 0: it is that of the trace."""

    seed: float = 0.0
    """Of that error's random numbers; each job has its own, whatever the others are."""

    def __post_init__(self) -> None:
        for name in ("profile_iterations", "expected_error_ratio"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: write 0 or more")

    def expected_seconds(self, job: TraceJob) -> float:
        """Return what is expected to be the job's duration, all of it."""
        expected_seconds = job.duration_seconds if job.expected_seconds is None else job.expected_seconds
        if not self.expected_error_ratio:
            return expected_seconds
        error = random.Random(f"{self.seed}/{job.key}").gauss(0.0, self.expected_error_ratio)
        return expected_seconds * math.exp(error)

    def profiling_seconds(self, job: TraceJob) -> float:
        """Return how much work a job does until its profile is known."""
        if self.profiled or job.profile is None:
            return 0.0
        return self.profile_iterations * job.profile.iteration_seconds
