"""A run on the real cluster beside its simulation, with the model of the operator and with the ideal one.

The simulation gets the submissions of the run, the configuration file of its operator, and what was measured before on other jobs: the
costs, and the templates of jobs that may share GPUs. It sees nothing else of the run. The speed of an elastic job is proportional to its
workers, by construction, and its workers report of it what they report to the operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean
from typing import Any

from laneway.scheduling.config.operator_config import OperatorConfig
from laneway.simulator import IDEAL, Costs, Knowledge, Latencies, OperatorModel, Simulation, TraceJob
from laneway.simulator.models.speed_model import SpeedModel
from laneway.simulator.records import JobRecord, Records
from laneway.simulator.setup import counted

from hack.demo.jobs import JobView
from tests.performance.real_cluster.drawn_jobs import DrawnJob, LanesJob
from tests.performance.real_cluster.reported_goodput import ReportedGoodput
from tests.performance.real_cluster.sharing_of_gpus import joined, recorded_holds, simulated_holds
from tests.performance.real_cluster.templates import MeasuredTemplates, SpeedsBeside
from tests.performance.real_workload.calibration import MeasuredCosts
from tests.performance.real_workload.prediction import as_trace, observed, pairs
from tests.performance.real_workload.setting_up import SettingUp, SetupTimes
from tests.performance.real_workload.workload import WorkloadJob

FREE = Costs(leave_seconds=0.0, restart_seconds=0.0)


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured before the runs."""

    costs: MeasuredCosts
    templates: MeasuredTemplates | None = None
    """None: no jobs may share GPUs."""


def modelled(config: OperatorConfig, measured: MeasuredCosts) -> tuple[OperatorModel, Costs]:
    """Return the model of the operator, and the costs, by which the measured times come about.

    A measured time contains the operator's reaction and its writes where it ends with a placement.
    """
    rest_seconds = config.cycle.debounce_milliseconds / 1000
    latencies = Latencies()
    latencies = replace(
        latencies,
        observe_seconds=max(0.0, measured.decision_seconds - rest_seconds),
        pods_seconds=max(0.0, measured.start_seconds - 2 * latencies.request_seconds),
        notice_seconds=max(0.0, measured.notice_seconds),
    )
    operator = OperatorModel(config, latencies)
    reaction_seconds = operator.reaction_seconds
    costs = Costs(
        leave_seconds=max(0.0, measured.leave_seconds - reaction_seconds - operator.stop_writes_seconds),
        restart_seconds=0.0,
        end_seconds=max(0.0, measured.end_seconds - latencies.notice_seconds - reaction_seconds),
    )
    return operator, costs


def compared(
    records: Records,
    views: Mapping[str, JobView],
    jobs: Sequence[DrawnJob],
    config: OperatorConfig,
    measured: Measured,
) -> dict[str, Any]:
    """Return a run's jobs beside their simulation, and how far off that is.

    Args:
        records: what the cluster recorded.
        views: the jobs as they ended, by name.
        jobs: of the run.
        config: of its operator.
        measured: before the run.
    """
    operator, costs = modelled(config, measured.costs)
    exits = measured.costs.exit_seconds_by_workers
    templates = measured.templates if any(isinstance(job, LanesJob) for job in jobs) else None
    found = pairs(records, jobs)
    trace = [_trace_job(job, record, exits[job.workers], templates) for job, record in found]
    free = [_trace_job(job, record, 0.0, templates) for job, record in found]
    setting_up = SettingUp(SetupTimes(measured.costs.setup_seconds_by_workers), _training(templates))
    runs = _simulated(records, trace, config, operator, costs, setting_up)
    ideal = _simulated(records, free, config, IDEAL, FREE, _training(templates))
    rescales = {name: view.status.rescales for name, view in views.items()}
    joins = [joined(holds) for holds in (recorded_holds(views), simulated_holds(runs))]
    if templates is None:  # else halves of GPUs would count
        joins = [frozenset(), frozenset()]
    rows = [
        {
            **_row(job, record, runs),
            "rescales": rescales[job.name],
            "simulated_rescales": runs.runs[record.job.key].rescales,
            "joins": job.name in joins[0],
            "simulated_joins": job.name in joins[1],
        }
        for job, record in found
    ]
    return {
        **_figures(rows),
        **{name: sum(row[name] for row in rows) for name in _COUNTED},
        "ideal": _figures([_row(job, record, ideal) for job, record in found]),
        "jobs": rows,
    }


_COUNTED = (
    *("preemptions", "simulated_preemptions"),
    *("rescales", "simulated_rescales"),
    *("joins", "simulated_joins"),
)


def _training(templates: MeasuredTemplates | None) -> SpeedModel:
    """Return how fast jobs train; None: they join no others, because their templates have never run."""
    return ReportedGoodput() if templates is None else SpeedsBeside(templates)


def _trace_job(
    job: DrawnJob, record: JobRecord, ending_seconds: float, templates: MeasuredTemplates | None
) -> TraceJob:
    """Return a job as it is simulated: it runs for as long as its work and its end take."""
    if isinstance(job, WorkloadJob):
        return as_trace(job, record, ending_seconds)
    if not isinstance(job, LanesJob) or templates is None:
        raise TypeError(f"job {job.name} has neither a known duration nor a measured template")
    template = templates.kinds[job.kind]
    duration_seconds = template.train_seconds + ending_seconds
    submitted = record.job
    return TraceJob(
        submitted.key,
        submitted.demand,
        submitted.submit_seconds,
        duration_seconds,
        profile=template.profile,
        model=job.kind,
    )


def _simulated(
    records: Records,
    trace: Sequence[TraceJob],
    config: OperatorConfig,
    operator: OperatorModel,
    costs: Costs,
    model: SpeedModel,
) -> Simulation:
    nodes = counted(records.nodes, config)
    known = Knowledge(profiled=True)  # the templates that there are have run before
    simulation = Simulation(
        trace, nodes, config.policies(), costs, model=model, knowledge=known, operator=operator
    )
    simulation.run()
    return simulation


def _row(job: DrawnJob, record: JobRecord, simulation: Simulation) -> dict[str, Any]:
    run = simulation.runs[record.job.key]
    assert run.finish_seconds is not None
    simulated_seconds = run.finish_seconds - record.job.submit_seconds
    return {
        **observed(job, record),
        "start_seconds": record.start_seconds,
        "simulated_start_seconds": run.first_run_seconds,
        "simulated_jct_seconds": simulated_seconds,
        "jct_ratio": simulated_seconds / record.jct_seconds,
        "simulated_preemptions": run.preemptions,
    }


def _figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return averages over the jobs, real and simulated."""
    average, simulated = (
        fmean(row[name] for row in rows) for name in ("jct_seconds", "simulated_jct_seconds")
    )
    makespan, simulated_makespan = (
        max(row["submit_seconds"] + row[name] for row in rows)
        for name in ("jct_seconds", "simulated_jct_seconds")
    )
    return {
        "average_jct_seconds": average,
        "simulated_average_jct_seconds": simulated,
        "average_jct_error_percent": 100 * (simulated / average - 1),
        "mean_absolute_jct_error_percent": 100 * fmean(abs(row["jct_ratio"] - 1) for row in rows),
        "makespan_seconds": makespan,
        "simulated_makespan_seconds": simulated_makespan,
        "makespan_error_percent": 100 * (simulated_makespan / makespan - 1),
        "same_order_of_starts_percent": same_order_percent(
            [(row["start_seconds"], row["simulated_start_seconds"]) for row in rows]
        ),
    }


def same_order_percent(starts: Sequence[tuple[float, float]]) -> float:
    """Return the percentage of the pairs of jobs that started in the same order in both, or at the same time in one of them."""
    agree = [(one[0] - other[0]) * (one[1] - other[1]) >= 0 for one, other in combinations(starts, 2)]
    return 100 * fmean(agree) if agree else 100.0
