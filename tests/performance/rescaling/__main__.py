"""Runs the same gangs and short jobs on a real cluster with fixed gangs and with elastic policies, in turns.

    python -m tests.performance.rescaling -o FILE.json [--rounds 1] [--modes fixed,pollux,bftrainer]

Two nodes of four simulated GPUs each, real kubelets, real pods: the gangs train with PyTorch's DistributedDataParallel and resume from
Laneway's checkpoints with other world sizes. A round runs all jobs in each mode; every second round in the opposite order. Each phase
begins without knowledge of the jobs' templates. The cluster is removed at the end, also after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from hack.cluster.progress import ClusterError, report
from hack.demo.install import DEMO_VALUES
from hack.images.chroot import ImageError
from tests.performance.real_workload.live_cluster import LiveCluster, live_cluster
from tests.performance.real_workload.load_meter import LoadMeter
from tests.performance.rescaling.figures import phase_figures
from tests.performance.rescaling.phase import run_phase
from tests.performance.rescaling.workload import jobs_of
from tests.performance.sharing.cpu_meter import CPUMeter

FIXED = "fixed"
MODES = (FIXED, "pollux", "bftrainer")
"""Each has a file of the chart's values."""

_FAILED = 1
_INTERRUPTED = 130
_FOLDER = Path(__file__).parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the phases; return 0 when they were carried out, whatever the figures."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.performance.rescaling",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="where the results go, as JSON")
    parser.add_argument(
        "--rounds", type=int, default=1, help="of one phase in each mode (default: %(default)s)"
    )
    parser.add_argument("--modes", default=",".join(MODES), help="default: %(default)s")
    parser.add_argument("--name", default="rescaling", help="the cluster's name (default: %(default)s)")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.modes.split(",")) - set(MODES))
    if unknown:
        parser.error(f"there is no mode {', '.join(unknown)}: write some of {', '.join(MODES)}")
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        results = _carried_out(options.name, options.modes.split(","), options.rounds)
    except (ClusterError, ImageError, OSError) as error:
        print(f"the phases could not be carried out: {error}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        print("interrupted; the cluster is removed", file=sys.stderr)
        return _INTERRUPTED
    options.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


def _carried_out(name: str, modes: Sequence[str], rounds: int) -> dict[str, Any]:
    phases: list[dict[str, Any]] = []
    mode = modes[0]
    with live_cluster(name, (DEMO_VALUES, _FOLDER / "cluster.yaml", _values(mode))) as cluster:
        for number in range(rounds):
            for wanted in modes if number % 2 == 0 else modes[::-1]:
                if wanted != mode:
                    _switch(cluster, wanted)
                    mode = wanted
                jobs = jobs_of(f"r{number}-{mode}", elastic=mode != FIXED)
                report(f"round {number + 1}, {mode}: {len(jobs)} jobs")
                with LoadMeter() as load, CPUMeter() as cpu:
                    runs = run_phase(cluster, jobs)
                busy = {"load_average": load.mean, "cores_busy": cpu.cores_busy}
                phases.append({"mode": mode, **busy, **phase_figures(runs)})
    return {"phases": phases}


def _values(mode: str) -> Path:
    return _FOLDER / f"{mode}.yaml"


def _switch(cluster: LiveCluster, mode: str) -> None:
    """Install the chart with the other mode's values: the operator starts again, and has learnt nothing."""
    report(f"switching to {mode}")
    cluster.installation.upgrade("--values", _FOLDER / "cluster.yaml", "--values", _values(mode))


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Let a SIGTERM go the way of Ctrl-C, so that the cluster is removed."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
