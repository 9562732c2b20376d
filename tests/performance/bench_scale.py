"""The operator with thousands of jobs, on a real control plane whose nodes kwok plays; written to ``docs/measurements``.

    python -m tests.performance.bench_scale --results docs/measurements --only operator

``operator`` is the operator in all parts of a day, about 30 minutes; ``watches`` compares kopf with a raw stream of TrainingJobs, about
10 minutes; ``binding`` compares kube-scheduler with the operator (``bindPods``), about 10 minutes; ``heartbeats`` compares statuses with
Leases as the signs of life of 10,000 nodes, about 15 minutes. Another size than a part's own is printed and written only where ``--results`` is another folder.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.performance.glance import write_glance
from tests.performance.page import write_page
from tests.performance.result_file import run_benchmark
from tests.performance.scale.tables import SCALE


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the benchmark, with the size that the page shows."""

    module: str
    file: str
    nodes: int
    jobs: int


PARTS = {
    "operator": Part("scale.scenario", "operator-scale.json", 1000, 5000),
    "watches": Part("scale.watches", "operator-watches.json", 300, 1500),
    "binding": Part("scale.binding", "binding.json", 300, 1500),
    "heartbeats": Part("scale.heartbeats", "heartbeats.json", 10_000, 0),
}
PAGE_RESULTS = Path("docs/measurements")


def main() -> int:
    """Run it; return 1 if it failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=PAGE_RESULTS, help="the folder for the JSON files")
    parser.add_argument("--only", default="", help=f"one of {', '.join(PARTS)}; default: all")
    parser.add_argument("--nodes", type=int, help="default: each part's own size")
    parser.add_argument("--jobs", type=int)
    arguments = parser.parse_args()
    if arguments.only and arguments.only not in PARTS:
        parser.error(f"--only is {arguments.only!r}: write one of {', '.join(PARTS)}")
    shown = arguments.results == PAGE_RESULTS
    if shown and (arguments.nodes or arguments.jobs):
        parser.error("another size does not go into the page of measurements: write --results FOLDER too")
    arguments.results.mkdir(parents=True, exist_ok=True)
    for name, part in PARTS.items():
        if arguments.only in ("", name) and not _measured(name, part, arguments):
            print(f"{name} failed", file=sys.stderr)
            return 1
    if shown:
        write_page(arguments.results, SCALE)
        write_glance(arguments.results)
    return 0


def _measured(name: str, part: Part, arguments: argparse.Namespace) -> bool:
    size = [f"--nodes={arguments.nodes or part.nodes}", f"--jobs={arguments.jobs or part.jobs}"]
    output = arguments.results / part.file
    if not run_benchmark(part.module, size, f"make bench-scale ONLY={name}", output):
        return False
    if arguments.results != PAGE_RESULTS:
        print(output.read_text(encoding="utf-8"))
    return True


if __name__ == "__main__":
    sys.exit(main())
