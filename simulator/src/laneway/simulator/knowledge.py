"""What the scheduler knows about a job of a trace: never its remaining time, and its profile no earlier than in a cluster."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from laneway.api.training_job_status import ProfileStatus
from laneway.scheduling import Profile
from laneway.scheduling.model.measured_profile import profile_of
from laneway.simulator.trace import TraceJob


@dataclass(frozen=True, slots=True)
class Knowledge:
    """When profiles are known, and how precise expected durations are."""

    profiled: bool = False
    """Whether profiles are known from the start, like those of templates that have run before (Muri-L, SIGCOMM'22, section 5, profiles
    every job in advance). False: a job's profile is known after its first iterations."""

    profile_iterations: float = 3.0
    """The number of these iterations; Laneway's client reports after 3."""

    stages: bool = True
    """Whether profiles have all stages of the trace. False: only what Laneway's nodes measure, by the conversion that the operator uses:
    the time within iterations (computing and communicating), and the time before them."""

    measured_iterations: float = 16.0
    """The number of iterations after which the speed of a job beside others is known: those of one report of Laneway's client. 0: it
    never is."""

    measured_seconds: float = 60.0
    """The least time for that: nodes report some times a minute."""

    expected_error_ratio: float = 0.0
    """The error of expected durations: the standard deviation of the natural logarithm of expected over real. 0: policies read the
    duration of the trace."""

    seed: float = 0.0
    """The seed of that error. Each job's error is independent of the other jobs."""

    def __post_init__(self) -> None:
        for name in (
            "profile_iterations",
            "measured_iterations",
            "measured_seconds",
            "expected_error_ratio",
        ):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: write 0 or more")

    def expected_seconds(self, job: TraceJob) -> float:
        """Return the expected total duration of a job."""
        expected_seconds = job.duration_seconds if job.expected_seconds is None else job.expected_seconds
        if not self.expected_error_ratio:
            return expected_seconds
        error = random.Random(f"{self.seed}/{job.key}").gauss(0.0, self.expected_error_ratio)
        return expected_seconds * math.exp(error)

    def profile_of(self, job: TraceJob) -> Profile | None:
        """Return the profile of a job, as far as it can become known."""
        profile = job.profile
        if self.stages or profile is None or profile.stages is None:
            return profile
        within_seconds = min(profile.iteration_seconds, profile.stages.gpu + profile.stages.network)
        return profile_of(
            ProfileStatus(
                persistent_bytes=profile.persistent_bytes,
                ephemeral_bytes=profile.ephemeral_bytes,
                iteration_microseconds=round(within_seconds * 1e6),
                data_microseconds=round((profile.iteration_seconds - within_seconds) * 1e6),
                model_bytes=profile.model_bytes,
                largest_tensor_bytes=profile.largest_tensor_bytes,
            )
        )

    def measuring_seconds(self, job: TraceJob, speed_ratio: float) -> float:
        """Return how long a job runs at a speed until that speed is known; infinite: it never is."""
        if not self.measured_iterations or job.profile is None or speed_ratio <= 0:
            return math.inf
        iterations_seconds = self.measured_iterations * job.profile.iteration_seconds / speed_ratio
        return max(self.measured_seconds, iterations_seconds)

    def profiling_seconds(self, job: TraceJob) -> float:
        """Return the work that a job does before its profile is known."""
        if self.profiled or job.profile is None:
            return 0.0
        return self.profile_iterations * job.profile.iteration_seconds
