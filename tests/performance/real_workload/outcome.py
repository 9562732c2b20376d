"""The prediction beside what happened: the results, and a table of them for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from laneway.simulator.records import JobRecord, Records

from tests.performance.real_workload.calibration import MeasuredCosts
from tests.performance.real_workload.prediction import (
    Prediction,
    figures,
    observed,
    operator_config,
    pairs,
    predict,
    predict_without_costs,
)
from tests.performance.real_workload.sensitivity import sensitivity
from tests.performance.real_workload.workload import BATCH_SECONDS, WorkloadJob

BASIS = (
    "Durations are known by construction (batches times the time in which one arrives). Costs are measured on the calibration's "
    "jobs in the same cluster before the workload. Of the workload's run the prediction sees the times of submission only."
)


def outcome(records: Records, workload: Sequence[WorkloadJob], measured: MeasuredCosts) -> dict[str, Any]:
    """Return the results: what was measured, recorded and predicted."""
    config = operator_config()
    prediction = predict(records, workload, measured)
    free = figures(records, predict_without_costs(records, workload))
    return {
        "basis": BASIS,
        "cluster": {"nodes": len(records.nodes), "gpus": sum(len(node.gpus) for node in records.nodes)},
        "policies": config.scheduling.model_dump(mode="json"),
        "batch_seconds": BATCH_SECONDS,
        "measured_costs": asdict(measured),
        **figures(records, prediction),
        "without_costs": {
            name: value for name, value in free.items() if name.startswith(("predicted", "error"))
        },
        "sensitivity": sensitivity(records, workload, measured),
        "jobs": [_job(job, record, prediction) for job, record in pairs(records, workload)],
    }


def table(results: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table of the results."""
    header = f"{'job':8} {'workers':>7} {'GPU %':>5} {'work':>6} {'submit':>6} {'JCT':>7} {'predicted':>9} {'error':>6} {'preempted':>9}"
    lines = [header]
    for job in results["jobs"]:
        lines.append(
            f"{job['job']:8} {job['workers']:7} {job['share_percent']:5} {job['work_seconds']:6.1f} "
            f"{job['submit_seconds']:6.1f} {job['jct_seconds']:7.1f} {job['predicted_jct_seconds']:9.1f} "
            f"{job['error_percent']:5.1f}% {job['preemptions']:4} ({job['predicted_preemptions']})"
        )
    spread = results["sensitivity"]
    for name in ("average_jct", "makespan"):
        error = spread[f"error_{name}_percent"]
        lines.append(
            f"{name.replace('_', ' ')}: {results[f'{name}_seconds']:.1f} s; predicted {results[f'predicted_{name}_seconds']:.1f} s, "
            f"{results[f'error_{name}_percent']:+.1f} %; without costs {results['without_costs'][f'error_{name}_percent']:+.1f} %; "
            f"with costs off by up to {spread['costs_off_by_up_to_ratio']:.0%} {error['mean']:+.1f} ± {error['deviation']:.1f} %"
        )
    lines.append(f"preemptions: {results['preemptions']}; predicted {results['predicted_preemptions']}")
    loads = results["load_average"]
    lines.append(
        f"load average of the machine's {results['machine']['cores']} cores: {loads['while_calibrating']} while calibrating, "
        f"{loads['while_running']} while running"
    )
    return lines


def _job(job: WorkloadJob, record: JobRecord, prediction: Prediction) -> dict[str, Any]:
    run = prediction.simulation.runs[record.job.key]
    assert run.finish_seconds is not None
    submit_seconds = record.job.submit_seconds
    predicted_jct_seconds = run.finish_seconds - submit_seconds
    return {
        **observed(job, record),
        "start_seconds": record.start_seconds - submit_seconds,
        "predicted_start_seconds": (run.first_run_seconds or 0.0) - submit_seconds,
        "predicted_jct_seconds": predicted_jct_seconds,
        "error_percent": 100 * (predicted_jct_seconds - record.jct_seconds) / record.jct_seconds,
        "predicted_preemptions": run.preemptions,
        "ran_seconds": record.job.duration_seconds,
        "predicted_ran_seconds": run.executed_seconds,
    }
