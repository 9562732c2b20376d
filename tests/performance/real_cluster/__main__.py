"""Runs drawn jobs on a real cluster and simulates each run: the chart's default configuration, shared GPUs, elastic jobs.

    python -m tests.performance.real_cluster -o FILE.json [--cases default,lanes,elastic] [--seeds 0,1,2] [--measured FILE.json]

Two nodes of two simulated GPUs each, real kubelets, real pods that train with PyTorch for tens of seconds. What the steps of the operator
and of the cluster take, and what the templates of jobs that share GPUs need, is measured before, on other jobs. Every run is in the result.
About half an hour with the defaults. A fourth case, preemption, runs on request. The cluster is removed at the end, also after Ctrl-C.
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

from laneway.api.rfc3339 import parse_time
from laneway.scheduling.config.operator_config import LeaseConfig
from laneway.simulator.records import Records, read_records

from hack.cluster.probes import wait_until
from hack.cluster.progress import ClusterError, report
from hack.demo.install import SYSTEM_NAMESPACE, system_pods
from hack.images.chroot import ImageError
from tests.performance.machine import this_machine
from tests.performance.real_cluster.cases import CASES, DEFAULT_CASES, GPUS, PREEMPTION, Case
from tests.performance.real_cluster.comparison import Measured, compared, modelled
from tests.performance.real_cluster.drawn_jobs import DrawnJob
from tests.performance.real_cluster.templates import measure_templates, read_templates
from tests.performance.real_workload.calibration import MeasuredCosts, calibrate
from tests.performance.real_workload.live_cluster import LiveCluster, live_cluster
from tests.performance.real_workload.load_meter import LoadMeter
from tests.performance.real_workload.run import run_workload
from tests.performance.sharing.phase import job_events
from tests.performance.sharing.workload import sources

_FAILED = 1
_INTERRUPTED = 130
_TIMEOUT_SECONDS = 120.0
_COMPONENT = "app.kubernetes.io/component"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases; return 0 when they were carried out, however far off the simulation is."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.performance.real_cluster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="where the results go, as JSON")
    parser.add_argument(
        "--cases",
        default=DEFAULT_CASES,
        help="names of cases in the order in which they run, separated by commas (default: %(default)s)",
    )
    parser.add_argument("--seeds", default="0,1,2", help="a run of each case for each (default: %(default)s)")
    parser.add_argument("--name", default="real-cluster", help="the cluster's name (default: %(default)s)")
    parser.add_argument(
        "--measured", type=Path, help="an earlier result, whose measurements count in place of new ones"
    )
    options = parser.parse_args(arguments)
    names, seeds = options.cases.split(","), [int(seed) for seed in options.seeds.split(",")]
    unknown = sorted(set(names) - {case.name for case in CASES})
    if unknown:
        parser.error(
            f"there is no case {', '.join(unknown)}: write some of {', '.join(each.name for each in CASES)}"
        )
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        results: dict[str, Any] = {}
        measured = _read_measured(options.measured) if options.measured else None
        by_name = {case.name: case for case in CASES}
        chosen = [by_name[name] for name in names]
        for results in _carried_out(chosen, options.name, seeds, measured):
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
    cases: Sequence[Case], name: str, seeds: Sequence[int], measured: Measured | None
) -> Iterator[dict[str, Any]]:
    """Run the cases; yield the results so far after each run, so that an interruption loses one run only."""
    found: dict[str, Any] = {}
    with live_cluster(name, PREEMPTION.values, PREEMPTION.offered_percent) as cluster:
        measured = measured or Measured(calibrate(cluster, GPUS))
        for case in cases:
            report(f"case {case.name}")
            _configure(cluster, case)
            if case.joins and measured.templates is None:
                measured = Measured(measured.costs, measure_templates(cluster, GPUS))
            done: list[dict[str, Any]] = []
            config = case.config.model_dump(mode="json", by_alias=True)
            found[case.name] = {"operator_config": config, "runs": done}
            operator, costs = modelled(case.config, measured.costs)
            for seed in seeds:
                done.append({"seed": seed, **_run(cluster, case, seed, measured)})
                yield {
                    "machine": asdict(this_machine()),
                    "measured_costs": asdict(measured.costs),
                    "measured_templates": None if measured.templates is None else asdict(measured.templates),
                    "latencies": asdict(operator.latencies),
                    "costs": asdict(costs),
                    "cases": found,
                }


def _configure(cluster: LiveCluster, case: Case) -> None:
    """Install the chart with a case's values over its own."""
    first, *others = case.values
    over = [option for file in others for option in ("--values", str(file))]
    cluster.installation.upgrade("--values", first, *over)
    cluster.installation.wait_until_advertised(case.offered_percent)
    _await_leader(cluster)
    if case.joins:
        cluster.jobs.apply([sources(cluster.namespace)])


def _run(cluster: LiveCluster, case: Case, seed: int, measured: Measured) -> dict[str, Any]:
    if case.joins:
        _restart_operator(
            cluster
        )  # it forgets how fast jobs were beside one another: the simulation has not seen them
    jobs = case.jobs(seed)
    report(f"case {case.name}, seed {seed}: {len(jobs)} jobs")
    with LoadMeter() as load:
        run_workload(cluster, jobs)
    records, views, events = _records(cluster), cluster.jobs.views(), list(_happened(cluster, jobs))
    cluster.jobs.delete_all()
    found = compared(records, views, jobs, case.config, measured)
    return {"load_average": load.mean, **found, "events": events}


def _happened(cluster: LiveCluster, jobs: Sequence[DrawnJob]) -> Iterator[str]:
    """Yield what the operator did with the jobs of a run, and when, in seconds since it first said something of them."""
    names = {job.name for job in jobs}
    events = [event for event in job_events(cluster) if event["regarding"]["name"] in names]
    for event in events:
        seconds = parse_time(event["eventTime"]) - parse_time(events[0]["eventTime"])
        yield f"{seconds:.1f} {event['regarding']['name']} {event['reason']}: {event.get('note', '')}"


def _restart_operator(cluster: LiveCluster) -> None:
    of_operator = ("deployment", "--namespace", SYSTEM_NAMESPACE, "--selector", f"{_COMPONENT}=operator")
    cluster.kubectl.run("rollout", "restart", *of_operator)
    cluster.kubectl.run("rollout", "status", *of_operator, f"--timeout={_TIMEOUT_SECONDS:.0f}s")
    _await_leader(cluster)


def _await_leader(cluster: LiveCluster) -> None:
    """Wait until the pod of a former operator is gone and the new one leads, so that no run begins without a leader."""

    def leads() -> bool:
        pods = system_pods(cluster.installation.target, "operator")
        lease = cluster.kubectl.get("lease", LeaseConfig().name, "--namespace", SYSTEM_NAMESPACE)
        return len(pods) == 1 and (lease["spec"].get("holderIdentity") or "").startswith(pods[0])

    wait_until(leads, "the new operator leading", _TIMEOUT_SECONDS)


def _records(cluster: LiveCluster) -> Records:
    """Return what the cluster recorded, read as `laneway replay` does: from a file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "records.json"
        file.write_text(json.dumps(cluster.records()), encoding="utf-8")
        return read_records(file)


def _read_measured(file: Path) -> Measured:
    found = json.loads(file.read_text(encoding="utf-8"))
    found = found.get("result", found)
    costs, templates = found["measured_costs"], found.get("measured_templates")
    by_workers = {
        name: {int(workers): seconds for workers, seconds in costs[name].items()}
        for name in ("setup_seconds_by_workers", "exit_seconds_by_workers")
    }
    return Measured(
        MeasuredCosts(**(costs | by_workers)), None if templates is None else read_templates(templates)
    )


def table(results: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each run."""
    form = "{:<11} {:>4} {:>6} {:>9} {:>9} {:>7} {:>9} {:>9} {:>7} {:>10} {:>9} {:>9} {:>9}"
    yield form.format(
        *(
            "case",
            "seed",
            "load",
            "avg JCT",
            "simulated",
            "error",
            "makespan",
            "simulated",
            "error",
            "same order",
        ),
        *("preempted", "rescales", "joins"),
    )
    for name, case in results["cases"].items():
        for run in case["runs"]:
            yield form.format(
                name,
                run["seed"],
                run["load_average"],
                f"{run['average_jct_seconds']:.1f} s",
                f"{run['simulated_average_jct_seconds']:.1f} s",
                f"{run['average_jct_error_percent']:+.1f}%",
                f"{run['makespan_seconds']:.1f} s",
                f"{run['simulated_makespan_seconds']:.1f} s",
                f"{run['makespan_error_percent']:+.1f}%",
                f"{run['same_order_of_starts_percent']:.0f}%",
                *(
                    f"{run[count]} ({run[f'simulated_{count}']})"
                    for count in ("preemptions", "rescales", "joins")
                ),
            )


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Let a SIGTERM go the way of Ctrl-C, so that the cluster is removed."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
