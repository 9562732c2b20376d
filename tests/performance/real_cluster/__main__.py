"""Runs the same jobs several times on a real cluster and simulates each run: default policy, shared GPUs, preemption.

    python -m tests.performance.real_cluster -o FILE.json [--runs 5] [--jobs 16] [--cases default,sharing] [--name NAME]

Two nodes of four simulated GPUs each, real kubelets, real pods that train with PyTorch for tens of seconds. What the steps of the operator
and of the cluster take is measured before, on other jobs. Every run is in the result. About an hour and a half with the defaults.
Each case has a cluster of its own, which is removed at its end, also after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

from laneway.simulator.records import Records, read_records

from hack.cluster.progress import ClusterError, report
from hack.images.chroot import ImageError
from tests.performance.machine import this_machine
from tests.performance.real_cluster.cases import CASES, Case
from tests.performance.real_cluster.comparison import compared, modelled
from tests.performance.real_workload.calibration import MeasuredCosts, calibrate
from tests.performance.real_workload.live_cluster import LiveCluster, live_cluster
from tests.performance.real_workload.load_meter import LoadMeter
from tests.performance.real_workload.run import run_workload

_FAILED = 1
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases; return 0 when they were carried out, however far off the simulation is."""
    parser = argparse.ArgumentParser(prog="python -m tests.performance.real_cluster", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="where the results go, as JSON")
    parser.add_argument("--runs", type=int, default=5, help="of each case (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=16, help="of each run (default: %(default)s)")
    parser.add_argument("--cases", default="", help="names of cases, separated by commas (default: all)")
    parser.add_argument("--name", default="real-cluster", help="the cluster's name (default: %(default)s)")
    parser.add_argument(
        "--costs", type=Path, help="measured costs of an earlier result, instead of measuring them"
    )
    options = parser.parse_args(arguments)
    chosen = [case for case in CASES if not options.cases or case.name in options.cases.split(",")]
    measured = _costs(options.costs) if options.costs else None
    if measured is None and CASES[0] not in chosen:
        parser.error(f"the costs are measured in the case {CASES[0].name}: choose it too, or give --costs")
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        results: dict[str, Any] = {}
        for results in _carried_out(chosen, options.name, options.runs, options.jobs, measured):
            options.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    except (ClusterError, ImageError, OSError) as error:
        print(f"the runs could not be carried out: {error}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        print("interrupted; the cluster is removed", file=sys.stderr)
        return _INTERRUPTED
    print("\n".join(table(results)), flush=True)
    return 0


def _carried_out(
    cases: Sequence[Case], name: str, runs: int, jobs: int, measured: MeasuredCosts | None
) -> Iterator[dict[str, Any]]:
    """Run the cases; yield the results so far after each run, so that an interruption loses one run only."""
    found: dict[str, Any] = {}
    for case in cases:
        report(f"case {case.name}")
        with live_cluster(name, case.values) as cluster:
            measured = measured or calibrate(cluster)
            done: list[dict[str, Any]] = []
            config = case.config.model_dump(mode="json", by_alias=True)
            found[case.name] = {"operator_config": config, "runs": done}
            operator, costs = modelled(case.config, measured)
            for number in range(1, runs + 1):
                done.append(_run(cluster, case, number, jobs, measured))
                yield {
                    "machine": asdict(this_machine()),
                    "measured_costs": asdict(measured),
                    "latencies": asdict(operator.latencies),
                    "costs": asdict(costs),
                    "cases": found,
                }


def _run(
    cluster: LiveCluster, case: Case, number: int, count: int, measured: MeasuredCosts
) -> dict[str, Any]:
    jobs = case.jobs(count, number)
    report(f"case {case.name}, run {number}: {len(jobs)} jobs")
    with LoadMeter() as load:
        run_workload(cluster, jobs)
    records = _records(cluster)
    cluster.jobs.delete_all()
    return {"load_average": load.mean, **compared(records, jobs, case.config, measured)}


def _records(cluster: LiveCluster) -> Records:
    """Return what the cluster recorded, read as `laneway replay` does: from a file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "records.json"
        file.write_text(json.dumps(cluster.records()), encoding="utf-8")
        return read_records(file)


def _costs(file: Path) -> MeasuredCosts:
    found = json.loads(file.read_text(encoding="utf-8"))
    costs = found.get("result", found)["measured_costs"]
    by_workers = {
        name: {int(workers): seconds for workers, seconds in costs[name].items()}
        for name in ("setup_seconds_by_workers", "exit_seconds_by_workers")
    }
    return MeasuredCosts(**(costs | by_workers))


def table(results: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each run."""
    form = "{:<11} {:>3} {:>8} {:>9} {:>7} {:>9} {:>9} {:>11} {:>10} {:>6} {:>12}"
    yield form.format(
        *(
            "case",
            "run",
            "avg JCT",
            "simulated",
            "error",
            "ideal err",
            "abs error",
            "ideal abs",
            "same order",
        ),
        *("evicts", "(simulated)"),
    )
    for name, case in results["cases"].items():
        for number, run in enumerate(case["runs"], start=1):
            yield form.format(
                name,
                number,
                f"{run['average_jct_seconds']:.1f} s",
                f"{run['simulated_average_jct_seconds']:.1f} s",
                f"{run['average_jct_error_percent']:+.1f}%",
                f"{run['ideal']['average_jct_error_percent']:+.1f}%",
                f"{run['mean_absolute_jct_error_percent']:.1f}%",
                f"{run['ideal']['mean_absolute_jct_error_percent']:.1f}%",
                f"{run['same_order_of_starts_percent']:.0f}%",
                run["preemptions"],
                f"({run['simulated_preemptions']})",
            )


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Let a SIGTERM go the way of Ctrl-C, so that the cluster is removed."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
