"""The operator with thousands of jobs, on a real control plane whose nodes kwok plays; written to ``docs/measurements``.

    python -m tests.performance.bench_scale --results docs/measurements --nodes 1000 --jobs 5000

Takes about fifteen minutes at that size. A smaller one is printed and written only where ``--results`` is another folder: the page shows the full size.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.performance.page import write_page
from tests.performance.result_file import run_benchmark
from tests.performance.scale.tables import SCALE

FULL_NODES, FULL_JOBS = 1000, 5000
PAGE_RESULTS = Path("docs/measurements")


def main() -> int:
    """Run it; return 1 if it failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=PAGE_RESULTS, help="the folder for the JSON file")
    parser.add_argument("--nodes", type=int, default=FULL_NODES)
    parser.add_argument("--jobs", type=int, default=FULL_JOBS)
    arguments = parser.parse_args()
    size = [f"--nodes={arguments.nodes}", f"--jobs={arguments.jobs}"]
    if arguments.results == PAGE_RESULTS and (arguments.nodes, arguments.jobs) != (FULL_NODES, FULL_JOBS):
        parser.error("a smaller run does not go into the page of measurements: write --results FOLDER too")
    arguments.results.mkdir(parents=True, exist_ok=True)
    output = arguments.results / "operator-scale.json"
    if not run_benchmark("scale.scenario", size, "make bench-scale", output):
        print("failed", file=sys.stderr)
        return 1
    if arguments.results == PAGE_RESULTS:
        write_page(arguments.results, SCALE)
    else:
        print(output.read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
