"""The simulator's prediction of the workload: the operator's own policies on the recorded nodes, with costs
measured beforehand.

A job's duration is known by construction: its number of batches times the interval between them, plus the measured times from
the last batch to the end and from there until the operator notices it. Until then a job counts as running, and may be preempted
although it is done: it then waits and sets up again, only to end. A job completes at its end, not when the operator notices it.
Of the run, the prediction uses only the submission times, not how long jobs really ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import yaml
from laneway.api.config_file import parse_config
from laneway.scheduling import Node
from laneway.scheduling.config.operator_config import OperatorConfig
from laneway.simulator import Costs, Simulation
from laneway.simulator.models.alone import Alone
from laneway.simulator.models.speed_model import SpeedModel
from laneway.simulator.records import JobRecord, Records
from laneway.simulator.replay import compare
from laneway.simulator.trace import TraceJob

from hack.demo.install import CHART
from tests.performance.real_workload.calibration import MeasuredCosts
from tests.performance.real_workload.live_cluster import VALUES
from tests.performance.real_workload.setting_up import SettingUp, SetupTimes
from tests.performance.real_workload.workload import WorkloadJob


@dataclass(frozen=True)
class Prediction:
    """A finished simulation, and the costs with which it was made."""

    simulation: Simulation
    costs: Costs


def operator_config(files: Sequence[Path] = VALUES) -> OperatorConfig:
    """Return the configuration that the chart gives the operator with files of values, each over the one before and the first one over
    the chart's own."""
    values: Any = {}
    for file in (CHART / "values.yaml", *files):
        values = _merged(values, yaml.safe_load(file.read_text(encoding="utf-8")))
    lanes = values["node"]["config"].get("lanes")
    merged = (
        values["operator"]["config"] | {"sharing": values["sharing"]} | ({"lanes": lanes} if lanes else {})
    )
    return parse_config(yaml.safe_dump(merged), OperatorConfig, str(files[-1]))


def predict(records: Records, workload: Sequence[WorkloadJob], measured: MeasuredCosts) -> Prediction:
    """Simulate the workload with the measured costs."""
    trace = [
        as_trace(job, record, measured.exit_seconds_by_workers[job.workers] + measured.notice_seconds)
        for job, record in pairs(records, workload)
    ]
    costs = Costs(
        start_seconds=measured.start_seconds,
        restart_seconds=measured.start_seconds,
        leave_seconds=measured.leave_seconds,
        end_seconds=max(0.0, measured.end_seconds - measured.notice_seconds),
    )
    prediction = _simulated(records, trace, costs, SettingUp(SetupTimes(measured.setup_seconds_by_workers)))
    for run in prediction.simulation.runs.values():
        if run.finish_seconds is not None:
            run.finish_seconds -= measured.notice_seconds
    return prediction


def predict_without_costs(records: Records, workload: Sequence[WorkloadJob]) -> Prediction:
    """Simulate it as if only the batches took time, which shows the effect of the costs."""
    trace = [as_trace(job, record, 0.0) for job, record in pairs(records, workload)]
    return _simulated(records, trace, Costs(leave_seconds=0.0, restart_seconds=0.0), Alone())


def figures(records: Records, prediction: Prediction) -> dict[str, Any]:
    """Return recorded and predicted averages, and how far off the prediction is."""
    config = operator_config().scheduling
    comparison = compare(
        records,
        prediction.simulation,
        policy=config.order.policy,
        placement=config.placement.policy,
        costs=prediction.costs,
    )
    return {
        "average_jct_seconds": comparison.recorded_average_jct_seconds,
        "predicted_average_jct_seconds": comparison.predicted_average_jct_seconds,
        "error_average_jct_percent": comparison.average_jct_error_percent,
        "makespan_seconds": comparison.recorded_makespan_seconds,
        "predicted_makespan_seconds": comparison.predicted_makespan_seconds,
        "error_makespan_percent": comparison.makespan_error_percent,
        "mean_absolute_jct_error_percent": comparison.mean_absolute_jct_error_percent,
        "preemptions": comparison.recorded_preemptions,
        "predicted_preemptions": comparison.predicted_preemptions,
    }


def _simulated(records: Records, trace: Sequence[TraceJob], costs: Costs, model: SpeedModel) -> Prediction:
    config = operator_config()
    rules = config.lane_rules()
    nodes = [
        Node(node.name, tuple(replace(gpu, lane_rules=rules) for gpu in node.gpus)) for node in records.nodes
    ]
    simulation = Simulation(trace, nodes, config.scheduling.policies(), costs, model=model)
    simulation.run()
    return Prediction(simulation, costs)


class Described(Protocol):
    """A job of a run, by construction."""

    @property
    def name(self) -> str:
        """Of the TrainingJob."""
        ...

    @property
    def workers(self) -> int:
        """With which it is submitted."""
        ...

    @property
    def share_percent(self) -> int:
        """Of one GPU, for each worker."""
        ...

    @property
    def work_seconds(self) -> float:
        """Its run time with these workers, but for setting up and ending."""
        ...


_Job = TypeVar("_Job", bound=Described)


def pairs(records: Records, workload: Sequence[_Job]) -> list[tuple[_Job, JobRecord]]:
    """Return each job with its record, ordered by submission."""
    by_name = {job.name: job for job in workload}
    return [(by_name[record.job.key.partition("/")[2]], record) for record in records.jobs]


def observed(job: Described, record: JobRecord) -> dict[str, Any]:
    """Return what is known of a job and its run without any simulation, as columns of a table."""
    return {
        "job": job.name,
        "workers": job.workers,
        "share_percent": job.share_percent,
        "work_seconds": job.work_seconds,
        "submit_seconds": record.job.submit_seconds,
        "jct_seconds": record.jct_seconds,
        "preemptions": record.preemptions,
    }


def as_trace(job: WorkloadJob, record: JobRecord, ending_seconds: float) -> TraceJob:
    """Return a job as it is simulated: it runs for as long as its work and its end take."""
    return TraceJob(
        record.job.key, record.job.demand, record.job.submit_seconds, job.work_seconds + ending_seconds
    )


def _merged(under: object, over: object) -> object:
    """Return one YAML value over another, as helm merges them: tables by key, everything else whole."""
    if isinstance(under, dict) and isinstance(over, dict):
        return under | {key: _merged(under.get(key), value) for key, value in over.items()}
    return over
