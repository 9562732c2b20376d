"""Compares a simulation with the records of a cluster.

Each recorded job is simulated with its running time in the cluster as its duration. The comparison therefore shows the errors of the
scheduler and of the costs: when jobs start, wait, are preempted and finish.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from laneway.simulator.costs import Costs
from laneway.simulator.operator_model import OperatorModel
from laneway.simulator.records import JobRecord, Records
from laneway.simulator.simulation import Simulation

NAMED = 10
"""The number of jobs with the largest errors that the comparison names."""


@dataclass(frozen=True, slots=True)
class JobComparison:
    """The records and the prediction of one job. Times are seconds from its submission."""

    job: str
    recorded_jct_seconds: float
    predicted_jct_seconds: float
    recorded_start_seconds: float
    predicted_start_seconds: float
    recorded_preemptions: int
    predicted_preemptions: int

    @property
    def error_seconds(self) -> float:
        """How much later the job finishes in the simulation."""
        return self.predicted_jct_seconds - self.recorded_jct_seconds


@dataclass(frozen=True, slots=True)
class Comparison:
    """All recorded jobs that the simulation finished. An error is prediction minus record."""

    policy: str
    placement: str
    jobs: int
    unfinished_jobs: int
    """Recorded as ended but not finished in the simulation; not in the figures."""

    recorded_average_jct_seconds: float
    predicted_average_jct_seconds: float
    average_jct_error_percent: float
    recorded_makespan_seconds: float
    predicted_makespan_seconds: float
    makespan_error_percent: float
    mean_absolute_jct_error_percent: float
    """The mean over the jobs."""

    recorded_preemptions: int
    predicted_preemptions: int
    start_seconds: float
    restart_seconds: float
    """The costs of the simulation."""

    worst: tuple[JobComparison, ...]
    """The jobs with the largest errors in seconds; at most ten."""


def costs_as_recorded(records: Records, costs: Costs, chosen: Collection[str]) -> Costs:
    """Return the costs with the recorded start times, unless the user chose them.

    Without events in the records, a first start takes as long as that of the job that started soonest after its submission: with
    free GPUs, that time contains nothing else.

    Args:
        records: the records of the cluster.
        costs: the chosen costs, or the defaults.
        chosen: names of the costs that stay.
    """
    soonest = min(record.start_seconds - record.job.submit_seconds for record in records.jobs)
    start_seconds = max(0.0, soonest) if records.start_seconds is None else records.start_seconds
    shown = {"start_seconds": start_seconds, "restart_seconds": records.restart_seconds}
    return replace(
        costs, **{name: value for name, value in shown.items() if value is not None and name not in chosen}
    )


def operator_as_recorded(operator: OperatorModel, chosen: Collection[str]) -> OperatorModel:
    """Return the model of the operator without the time in which pods start, unless the user chose it: the recorded time of a start
    contains it."""
    if "pods_seconds" in chosen:
        return operator
    return replace(operator, latencies=replace(operator.latencies, pods_seconds=0.0))


def compare(
    records: Records, simulation: Simulation, *, policy: str, placement: str, costs: Costs
) -> Comparison:
    """Compare a finished simulation of the recorded jobs with the records.

    Raises:
        ValueError: the simulation finished none of them.
    """
    finished = [
        (record, run, run.finish_seconds)
        for record in records.jobs
        if (run := simulation.runs.get(record.job.key)) is not None and run.finish_seconds is not None
    ]
    if not finished:
        raise ValueError(
            "the simulation finished none of the recorded jobs: give the nodes on which they ran"
        )
    jobs = [
        JobComparison(
            record.job.key,
            record.jct_seconds,
            finish - record.job.submit_seconds,
            record.start_seconds - record.job.submit_seconds,
            (run.first_run_seconds or 0.0) - record.job.submit_seconds,
            record.preemptions,
            run.preemptions,
        )
        for record, run, finish in finished
    ]
    recorded_average = fmean(job.recorded_jct_seconds for job in jobs)
    predicted_average = fmean(job.predicted_jct_seconds for job in jobs)
    recorded_makespan = _makespan([(record, record.finish_seconds) for record, _, _ in finished])
    predicted_makespan = _makespan([(record, finish) for record, _, finish in finished])
    return Comparison(
        policy,
        placement,
        len(jobs),
        len(records.jobs) - len(jobs),
        recorded_average,
        predicted_average,
        _error_percent(recorded_average, predicted_average),
        recorded_makespan,
        predicted_makespan,
        _error_percent(recorded_makespan, predicted_makespan),
        fmean(abs(_error_percent(job.recorded_jct_seconds, job.predicted_jct_seconds)) for job in jobs),
        sum(job.recorded_preemptions for job in jobs),
        sum(job.predicted_preemptions for job in jobs),
        costs.start_seconds,
        costs.restart_seconds,
        tuple(sorted(jobs, key=lambda job: (-abs(job.error_seconds), job.job))[:NAMED]),
    )


def comparison_as_json(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON types."""
    worst = [{**asdict(job), "error_seconds": job.error_seconds} for job in comparison.worst]
    return {**asdict(comparison), "worst": worst}


def _makespan(finishes: Sequence[tuple[JobRecord, float]]) -> float:
    """Return the time from the first submission to the last finish."""
    return max(finish for _, finish in finishes) - min(record.job.submit_seconds for record, _ in finishes)


def _error_percent(recorded: float, predicted: float) -> float:
    return 100 * (predicted - recorded) / recorded if recorded else 0.0
