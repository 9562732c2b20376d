"""Runs jobs that use 30 to 70 % of a GPU on a real cluster, each alone on its GPU and sharing GPUs, in turns.

    python -m tests.performance.sharing -o FILE.json [--seconds 45] [--rounds 1] [--groups crowd,50-50] [--modes off,lanes]

Two nodes, real kubelets, real pods that train with PyTorch on simulated GPUs whose time is divided between the jobs that compute. Ten jobs
are submitted for six GPUs, and five pairs for one GPU each. A round runs all of them in each mode: without sharing, sharing in one lane of
a GPU, and sharing in several lanes; every second round in the opposite order. Each phase begins without knowledge of the jobs' templates.
What a job takes alone is measured in the phases without sharing. The cluster is removed at the end, also after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from laneway.api.gpu_sharing import OFFERED_PERCENT

from hack.cluster.progress import ClusterError, report
from hack.images.chroot import ImageError
from tests.performance.real_workload.live_cluster import LiveCluster, live_cluster
from tests.performance.real_workload.load_meter import LoadMeter
from tests.performance.sharing.cpu_meter import CPUMeter
from tests.performance.sharing.figures import JobRun, alone_seconds, goals, phase_figures
from tests.performance.sharing.phase import run_phase
from tests.performance.sharing.workload import CROWD, PAIRS, jobs_of, sources

_FAILED = 1
_INTERRUPTED = 130
_FOLDER = Path(__file__).parent
_CLUSTER = _FOLDER / "cluster.yaml"
_GPUS_PER_NODE = 8
_MODES: Mapping[str, tuple[Path, int]] = {
    "off": (_FOLDER / "off.yaml", _GPUS_PER_NODE * OFFERED_PERCENT["off"]),
    "one-lane": (_FOLDER / "one-lane.yaml", _GPUS_PER_NODE * OFFERED_PERCENT["lanes"]),
    "lanes": (_FOLDER / "lanes.yaml", _GPUS_PER_NODE * OFFERED_PERCENT["lanes"]),
}
"""By name: the chart's values, and the percent of GPUs that each node then offers."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the phases; return 0 when they were carried out, whatever the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.performance.sharing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="where the results go, as JSON")
    parser.add_argument(
        "--seconds", type=float, default=45.0, help="each job's time alone (default: %(default)s)"
    )
    parser.add_argument(
        "--rounds", type=int, default=1, help="of one phase in each mode (default: %(default)s)"
    )
    parser.add_argument("--groups", default=",".join((*PAIRS, CROWD)), help="default: %(default)s")
    parser.add_argument(
        "--modes", default=",".join(_MODES), help="default: %(default)s; alone times need off"
    )
    parser.add_argument("--name", default="sharing", help="the cluster's name (default: %(default)s)")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        results = _carried_out(options)
    except (ClusterError, ImageError, OSError) as error:
        print(f"the phases could not be carried out: {error}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        print("interrupted; the cluster is removed", file=sys.stderr)
        return _INTERRUPTED
    options.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


def _carried_out(options: argparse.Namespace) -> dict[str, Any]:
    modes = options.modes.split(",")
    phases: list[tuple[str, list[JobRun], dict[str, Any]]] = []
    first = _MODES[modes[0]]
    with live_cluster(options.name, (_CLUSTER, first[0]), advertised_percent=first[1]) as cluster:
        cluster.jobs.apply([sources(cluster.namespace)])
        node = min(each["metadata"]["name"] for each in cluster.kubectl.get("nodes")["items"])
        mode = modes[0]
        for number in range(options.rounds):
            for wanted in modes if number % 2 == 0 else modes[::-1]:
                if wanted != mode:
                    _switch(cluster, wanted)
                    mode = wanted
                jobs = jobs_of(options.groups.split(","), f"r{number}-{mode}", options.seconds, node)
                report(f"round {number + 1}, sharing {mode}: {len(jobs)} jobs")
                with LoadMeter() as load, CPUMeter() as cpu:
                    runs = run_phase(cluster, jobs)
                phases.append((mode, runs, {"load_average": load.mean, "cores_busy": cpu.cores_busy}))
    return _results(options, phases)


def _results(
    options: argparse.Namespace, phases: Sequence[tuple[str, list[JobRun], dict[str, Any]]]
) -> dict[str, Any]:
    alone = alone_seconds(run for mode, runs, _ in phases if mode == "off" for run in runs)
    alone = alone or {run.kind: options.seconds for _, runs, _ in phases for run in runs}
    shown = [{"sharing": mode, **loads, **phase_figures(runs, alone)} for mode, runs, loads in phases]
    off = [phase for phase in shown if phase["sharing"] == "off"]
    return {
        "job_seconds": options.seconds,
        "alone_seconds": alone,
        "goals": [
            goals(phase, off[0])
            for phase in shown
            if off and phase["sharing"] != "off" and {CROWD, "50-50"} <= phase.keys()
        ],
        "phases": shown,
    }


def _switch(cluster: LiveCluster, mode: str) -> None:
    """Install the chart with the other mode's values: operator and agents start again, and the operator has learnt nothing."""
    values, percent = _MODES[mode]
    report(f"switching to sharing {mode}")
    cluster.installation.upgrade("--values", values)
    cluster.installation.wait_until_advertised(percent)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Let a SIGTERM go the way of Ctrl-C, so that the cluster is removed."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
