"""Runs the benchmarks of one part of the page of measurements, each in a process of its own, from a command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.performance.page import Block, write_page
from tests.performance.result_file import run_benchmark


def run_block(block: Block, modules: Mapping[str, str], description: str | None, prefix: str = "") -> int:
    """Run what the command line asks for, and write the tables anew; return 1 if a benchmark failed.

    Args:
        block: the part of the page.
        modules: by the name of a benchmark, its module below ``tests.performance``, in the order in which they run.
        description: for ``--help``.
        prefix: of the result files' names.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, required=True, help="the folder for the JSON files")
    parser.add_argument("--only", default="", help="names of benchmarks, separated by commas")
    arguments = parser.parse_args()
    names = [name for name in arguments.only.split(",") if name] or list(modules)
    unknown = sorted(set(names) - modules.keys())
    if unknown:
        parser.error(f"there is no benchmark {', '.join(unknown)}: write some of {', '.join(modules)}")
    arguments.results.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in names:
        print(name, flush=True)
        output = arguments.results / f"{prefix}{name}.json"
        if not run_benchmark(modules[name], [], f"make {block.target} ONLY={name}", output):
            failed.append(name)
    write_page(arguments.results, block)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0
