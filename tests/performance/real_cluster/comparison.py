"""A run on the real cluster beside its simulation, with the model of the operator and with the ideal one.

The simulation gets the submissions of the run, the configuration file of its operator, and costs that were measured before on other
jobs. It sees nothing else of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from statistics import fmean
from typing import Any

from laneway.scheduling.config.operator_config import OperatorConfig
from laneway.simulator import IDEAL, Costs, Latencies, OperatorModel, Simulation, TraceJob
from laneway.simulator.models.alone import Alone
from laneway.simulator.models.speed_model import SpeedModel
from laneway.simulator.records import JobRecord, Records
from laneway.simulator.setup import counted

from tests.performance.real_workload.calibration import MeasuredCosts
from tests.performance.real_workload.prediction import as_trace, observed, pairs
from tests.performance.real_workload.setting_up import SettingUp, SetupTimes
from tests.performance.real_workload.workload import WorkloadJob

FREE = Costs(leave_seconds=0.0, restart_seconds=0.0)


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
    records: Records, jobs: Sequence[WorkloadJob], config: OperatorConfig, measured: MeasuredCosts
) -> dict[str, Any]:
    """Return a run's jobs beside their simulation, and how far off that is."""
    operator, costs = modelled(config, measured)
    found = pairs(records, jobs)
    exits = measured.exit_seconds_by_workers
    model = SettingUp(SetupTimes(measured.setup_seconds_by_workers))
    runs = _simulated(records, _trace(found, exits), config, operator, costs, model)
    ideal = _simulated(records, _trace(found, dict.fromkeys(exits, 0.0)), config, IDEAL, FREE, Alone())
    rows = [_row(job, record, runs) for job, record in found]
    return {
        **_figures(rows),
        "ideal": _figures([_row(job, record, ideal) for job, record in found]),
        "jobs": rows,
    }


def _trace(
    found: Sequence[tuple[WorkloadJob, JobRecord]], ending_seconds: Mapping[int, float]
) -> list[TraceJob]:
    return [as_trace(job, record, ending_seconds[job.workers]) for job, record in found]


def _simulated(
    records: Records,
    trace: Sequence[TraceJob],
    config: OperatorConfig,
    operator: OperatorModel,
    costs: Costs,
    model: SpeedModel,
) -> Simulation:
    nodes = counted(records.nodes, config)
    policies = config.scheduling.policies()
    simulation = Simulation(trace, nodes, policies, costs, model=model, operator=operator)
    simulation.run()
    return simulation


def _row(job: WorkloadJob, record: JobRecord, simulation: Simulation) -> dict[str, Any]:
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
    ends, simulated_ends = (
        max(row["submit_seconds"] + row[name] for row in rows)
        for name in ("jct_seconds", "simulated_jct_seconds")
    )
    return {
        "average_jct_seconds": average,
        "simulated_average_jct_seconds": simulated,
        "average_jct_error_percent": 100 * (simulated / average - 1),
        "mean_absolute_jct_error_percent": 100 * fmean(abs(row["jct_ratio"] - 1) for row in rows),
        "makespan_error_percent": 100 * (simulated_ends / ends - 1),
        "same_order_of_starts_percent": same_order_percent(
            [(row["start_seconds"], row["simulated_start_seconds"]) for row in rows]
        ),
        "preemptions": sum(row["preemptions"] for row in rows),
        "simulated_preemptions": sum(row["simulated_preemptions"] for row in rows),
    }


def same_order_percent(starts: Sequence[tuple[float, float]]) -> float:
    """Return the percentage of the pairs of jobs that started in the same order in both, or at the same time in one of them."""
    agree = [(one[0] - other[0]) * (one[1] - other[1]) >= 0 for one, other in combinations(starts, 2)]
    return 100 * fmean(agree) if agree else 100.0
