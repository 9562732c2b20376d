"""All benchmarks of the scheduling core, one after the other; each result is written with the machine and the date.

    python -m tests.performance.bench_scheduling --traces ../shared/traces --results docs/measurements

``--only speed,better`` runs some of them. Results that need a folder of traces that is not there are left as they are, which is
said. ``docs/measurements.md`` shows what the JSON files hold: its tables are written anew from them at the end.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.performance.page import SCHEDULING, write_page
from tests.performance.result_file import run_benchmark


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One of them."""

    name: str
    """Of its result file."""

    module: str
    """Below ``tests.performance``; it takes ``-o FILE`` for its JSON."""

    needs_traces: bool = True


BENCHMARKS = (
    Benchmark("fidelity", "fidelity"),
    Benchmark("better", "better"),
    Benchmark("speed", "decision_speed", needs_traces=False),
    Benchmark("simulation", "simulation_speed", needs_traces=False),
    Benchmark("elastic", "elastic"),
    Benchmark("estimates", "estimates"),
)
"""In the order in which they run. ``fragmentation`` and ``real_workload`` take long or need a cluster: they are commands of
their own."""

LONG = (
    Benchmark("fragmentation", "fragmentation"),
    Benchmark("real-workload", "real_workload", needs_traces=False),
)


def main() -> int:
    """Run what was asked for; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=Path, required=True, help="the folder with the published traces")
    parser.add_argument("--results", type=Path, required=True, help="the folder for the JSON files")
    parser.add_argument("--only", default="", help="names of benchmarks, separated by commas")
    arguments = parser.parse_args()
    known = {benchmark.name: benchmark for benchmark in (*BENCHMARKS, *LONG)}
    names = [name for name in arguments.only.split(",") if name] or [each.name for each in BENCHMARKS]
    unknown = sorted(set(names) - known.keys())
    if unknown:
        parser.error(f"there is no benchmark {', '.join(unknown)}: write some of {', '.join(known)}")
    arguments.results.mkdir(parents=True, exist_ok=True)
    failed = [name for name in names if not _run(known[name], arguments.traces, arguments.results)]
    write_page(arguments.results, SCHEDULING)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _run(benchmark: Benchmark, traces: Path, results: Path) -> bool:
    """Run one; return whether it succeeded, or could not run for want of traces."""
    if benchmark.needs_traces and not traces.is_dir():
        print(f"{benchmark.name}: left as it is; there are no traces at {traces}", file=sys.stderr)
        return True
    print(f"{benchmark.name}: {benchmark.module}", flush=True)
    return run_benchmark(
        benchmark.module,
        ["--traces", str(traces)] if benchmark.needs_traces else [],
        f"make bench-scheduling ONLY={benchmark.name}",
        results / f"{benchmark.name}.json",
    )


if __name__ == "__main__":
    sys.exit(main())
