"""Measures the error of the start estimates that users of waiting jobs see.

    python -m tests.performance.estimates --traces ../shared/traces -o estimates.json

Each trace is simulated. At 200 moments spread over the submissions, each waiting job that has never started gets an estimate
(``laneway.scheduling.explain.forecast``, which does not know of later jobs). The estimate is compared with the job's real
start.

The estimates use one of three kinds of knowledge: the durations of the trace; durations that are off by a random factor (the
standard deviation of its natural logarithm is 0.7, so half of them are off by more than 1.6 times); or none, where a running
job is assumed to run for as long again. The baseline only knows the waits of the jobs that have started so far. It predicts
their median wait since submission, or an immediate start if the job has waited longer.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median

from laneway.simulator import Simulation, TraceJob, make_nodes, read_trace
from laneway.simulator.setup import make_setup

from tests.performance.result_file import write_outcomes
from tests.performance.synthetic_trace import synthetic_trace

MOMENTS = 200
SHORTEST_WAIT_SECONDS = 60.0
"""A wait shorter than this counts as this long where errors are put in proportion to it."""

KNOWLEDGE = ("durations", "rough durations", "nothing")
POLICIES = ("fifo", "multilevel-las")
ROUGH = 0.7


@dataclass(frozen=True, slots=True)
class Guess:
    """The estimate of one job at one time."""

    job: str
    at_seconds: float
    estimated_seconds: float
    """From then until it starts."""

    usual_seconds: float
    """By the median wait of others."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The estimates of one simulation."""

    trace: str
    policy: str
    knows: str
    estimates: int
    median_wait_seconds: float
    """From the estimate to the start."""

    median_error_seconds: float
    mean_error_seconds: float
    within_factor_2_percent: float
    """Of the estimates: how many say no less than half of the wait, and no more than twice as much."""

    median_bias_seconds: float
    """Estimated minus real; above zero: the estimate was too late."""

    usual_median_error_seconds: float
    """Of who says the median wait of others."""

    usual_within_factor_2_percent: float


def outcomes(traces: Path) -> Iterator[Outcome]:
    """Simulate everything; yield as it comes."""
    named = {
        "tiresias/60_job.csv on 2x4": (read_trace(traces / "tiresias/60_job.csv"), "2x4"),
        "muri/cluster_trace.csv on 8x8": (read_trace(traces / "muri/cluster_trace.csv"), "8x8"),
        "synthetic, 1,000 jobs on 8x8": (synthetic_trace(1000, gpus=64), "8x8"),
    }
    for name, (trace, nodes) in named.items():
        for policy in POLICIES:
            for knows in KNOWLEDGE:
                yield _outcome(name, trace, nodes, policy, knows)


def _outcome(name: str, trace: Sequence[TraceJob], nodes: str, policy: str, knows: str) -> Outcome:
    setup = make_setup(policy, "best-fit", ["profiled=true"])
    knowledge = replace(setup.knowledge, expected_error_ratio=ROUGH if knows == "rough durations" else 0.0)
    simulation = Simulation(
        trace, make_nodes(nodes), setup.policies, setup.costs, model=setup.model, knowledge=knowledge
    )
    guesses = list(_guesses(simulation, trace, trust=knows != "nothing"))
    scored = [
        (guess, start_seconds - guess.at_seconds)
        for guess in guesses
        if (start_seconds := simulation.runs[guess.job].first_start_seconds) is not None
    ]
    waits = [wait_seconds for _, wait_seconds in scored]
    errors = [guess.estimated_seconds - wait_seconds for guess, wait_seconds in scored]
    usual = [abs(guess.usual_seconds - wait_seconds) for guess, wait_seconds in scored]
    return Outcome(
        trace=name,
        policy=policy,
        knows=knows,
        estimates=len(scored),
        median_wait_seconds=median(waits),
        median_error_seconds=median(map(abs, errors)),
        mean_error_seconds=fmean(map(abs, errors)),
        within_factor_2_percent=_near_percent(scored, lambda guess: guess.estimated_seconds),
        median_bias_seconds=median(errors),
        usual_median_error_seconds=median(usual),
        usual_within_factor_2_percent=_near_percent(scored, lambda guess: guess.usual_seconds),
    )


def _guesses(simulation: Simulation, trace: Sequence[TraceJob], *, trust: bool) -> Iterator[Guess]:
    submitted = sorted(job.submit_seconds for job in trace)
    moments = [submitted[len(submitted) * at // MOMENTS] for at in range(MOMENTS)]
    waited: list[float] = []
    started: set[str] = set()
    while simulation.step():
        now_seconds = simulation.now_seconds
        for key, run in simulation.runs.items():
            if key not in started and run.first_start_seconds is not None:
                started.add(key)
                insort(waited, run.first_start_seconds - run.job.submit_seconds)
        if not moments or now_seconds < moments[0]:
            continue
        moments = [moment for moment in moments if moment > now_seconds]
        usual_seconds = waited[len(waited) // 2] if waited else 0.0
        for key, estimated in simulation.estimated_starts(trust_durations=trust).items():
            run = simulation.runs[key]
            if run.first_start_seconds is None:
                since_seconds = now_seconds - run.job.submit_seconds
                yield Guess(
                    key, now_seconds, estimated - now_seconds, max(0.0, usual_seconds - since_seconds)
                )


def _near_percent(scored: Sequence[tuple[Guess, float]], said: Callable[[Guess], float]) -> float:
    near = 0
    for guess, wait_seconds in scored:
        real = max(wait_seconds, SHORTEST_WAIT_SECONDS)
        near += real / 2 <= max(said(guess), SHORTEST_WAIT_SECONDS) <= real * 2
    return 100 * near / len(scored)


if __name__ == "__main__":
    write_outcomes(outcomes, "muri/ and tiresias/")
