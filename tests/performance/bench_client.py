"""All benchmarks of the client, one after the other, with real PyTorch.

    python -m tests.performance.bench_client --results docs/measurements

``--only fit`` runs some of them. Each result is written with the machine and the date, and the tables of
``docs/measurements.md`` are written anew from them at the end. Takes about two minutes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.performance.client.tables import CLIENT
from tests.performance.page import write_page
from tests.performance.result_file import run_benchmark

MODULES = {"fit": "fit"}
"""Below ``tests.performance.client``, by name, in the order in which they run."""


def main() -> int:
    """Run what was asked for; return 1 if one of them failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, required=True, help="the folder for the JSON files")
    parser.add_argument("--only", default="", help="names of benchmarks, separated by commas")
    arguments = parser.parse_args()
    names = [name for name in arguments.only.split(",") if name] or list(MODULES)
    unknown = sorted(set(names) - MODULES.keys())
    if unknown:
        parser.error(f"there is no benchmark {', '.join(unknown)}: write some of {', '.join(MODULES)}")
    arguments.results.mkdir(parents=True, exist_ok=True)
    failed = [name for name in names if not _run(name, arguments.results)]
    write_page(arguments.results, CLIENT)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _run(name: str, results: Path) -> bool:
    print(name, flush=True)
    command = f"make bench-client ONLY={name}"
    return run_benchmark(f"client.{MODULES[name]}", [], command, results / f"{name}.json")


if __name__ == "__main__":
    sys.exit(main())
