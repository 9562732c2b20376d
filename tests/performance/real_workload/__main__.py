"""Runs the 30 jobs of `workload.json` on a real cluster, has the simulator predict the run, and says how far off it is.

    python -m tests.performance.real_workload -o FILE.json [--records FILE]

Two nodes of four simulated GPUs each, real kubelets, real pods that train with PyTorch. What a start, a preemption and an end
cost is measured before, on jobs of the calibration; the prediction sees the workload's submissions and nothing else of the run.
Takes about a quarter of an hour on a machine that has built the cluster's programs before. The cluster is removed at
the end, also after Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

from laneway.simulator.records import Records, read_records

from hack.cluster.progress import ClusterError, report
from hack.images.chroot import ImageError
from tests.performance.machine import this_machine
from tests.performance.real_workload.calibration import calibrate
from tests.performance.real_workload.live_cluster import live_cluster
from tests.performance.real_workload.load_meter import LoadMeter
from tests.performance.real_workload.outcome import outcome, table
from tests.performance.real_workload.run import run_workload
from tests.performance.real_workload.workload import read_workload

_FAILED = 1
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; return 0 when it was carried out, however far off the prediction is."""
    parser = argparse.ArgumentParser(prog="python -m tests.performance.real_workload", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True, help="where the results go, as JSON")
    parser.add_argument(
        "--records",
        type=Path,
        help="where the cluster's records go, as 'laneway replay --records' reads them",
    )
    parser.add_argument("--name", default="real-workload", help="the cluster's name (default: %(default)s)")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        _carry_out(options.name, options.output, options.records)
    except (ClusterError, ImageError, OSError) as error:
        print(f"the workload could not be carried out: {error}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        print("interrupted; the cluster is removed", file=sys.stderr)
        return _INTERRUPTED
    return 0


def _carry_out(name: str, output: Path, records_file: Path | None) -> None:
    workload = read_workload()
    with live_cluster(name) as cluster:
        with LoadMeter() as while_calibrating:
            measured = calibrate(cluster)
        report(f"the workload: {len(workload)} jobs")
        with LoadMeter() as while_running:
            run_workload(cluster, workload)
        loads = {"while_calibrating": while_calibrating.mean, "while_running": while_running.mean}
        records = _read(cluster.records(), records_file)
        results = {
            "machine": asdict(this_machine()),
            "load_average": loads,
            **outcome(records, workload, measured),
        }
        output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print("\n".join(table(results)), flush=True)


def _read(recorded: dict[str, Any], records_file: Path | None) -> Records:
    """Read what was recorded as `laneway replay` does: from a file."""
    with tempfile.TemporaryDirectory() as folder:
        file = records_file or Path(folder) / "records.json"
        file.write_text(json.dumps(recorded), encoding="utf-8")
        return read_records(file)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Let a SIGTERM go the way of Ctrl-C, so that the cluster is removed."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
