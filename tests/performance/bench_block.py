"""Runs the benchmarks of one part of the page of measurements, each in a process of its own, from a command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from tests.performance.glance import write_glance
from tests.performance.page import Block, write_page
from tests.performance.result_file import run_benchmark


def _only_help(modules: Mapping[str, str], on_request: Collection[str]) -> str:
    named = f"; without it, all but {', '.join(on_request)}" if on_request else ""
    return f"some of {', '.join(modules)}, separated by commas{named}"


def run_block(
    block: Block,
    modules: Mapping[str, str],
    description: str | None,
    *,
    prefix: str = "",
    on_traces: Collection[str] = (),
    on_request: Collection[str] = (),
) -> int:
    """Run the benchmarks of the command line and write the page's tables; return 1 if a benchmark failed.

    Args:
        block: the part of the page.
        modules: by the name of a benchmark, its module below ``tests.performance``, in the order in which they run.
        description: for ``--help``.
        prefix: of the result files' names.
        on_traces: benchmarks that read the folder of ``--traces``; without it, their results stay as they are.
        on_request: benchmarks that run only if ``--only`` names them.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, required=True, help="the folder for the JSON files")
    parser.add_argument("--only", default="", help=_only_help(modules, on_request))
    if on_traces:
        parser.add_argument("--traces", type=Path, required=True, help="the folder with the published traces")
    arguments = parser.parse_args()
    names = [name for name in arguments.only.split(",") if name]
    names = names or [name for name in modules if name not in on_request]
    unknown = sorted(set(names) - modules.keys())
    if unknown:
        parser.error(f"there is no benchmark {', '.join(unknown)}: write some of {', '.join(modules)}")
    arguments.results.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in names:
        folder = arguments.traces if name in on_traces else None
        if folder is not None and not folder.is_dir():
            print(f"{name}: skipped; there are no traces at {folder}", file=sys.stderr)
            continue
        print(name, flush=True)
        options = [] if folder is None else ["--traces", str(folder)]
        output = arguments.results / f"{prefix}{name}.json"
        if not run_benchmark(modules[name], options, f"make {block.target} ONLY={name}", output):
            failed.append(name)
    write_page(arguments.results, block)
    write_glance(arguments.results)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0
