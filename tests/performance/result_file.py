"""The file of a benchmark's result: its writer and its metadata."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.performance.machine import this_machine


def write_measured(measure: Callable[[], Any]) -> None:
    """Be the command of a benchmark without arguments: measure, and write the JSON to where ``-o`` says."""
    parser = argparse.ArgumentParser(
        description=sys.modules[measure.__module__].__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "-o", "--output", type=Path, help="where the result goes, as JSON (default: to be read)"
    )
    output = parser.parse_args().output
    text = json.dumps(measure(), indent=1) + "\n"
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, encoding="utf-8")


def write_outcomes(outcomes: Callable[[Path], Iterable[Any]], folders: str) -> None:
    """Be the command of a benchmark on traces: print each outcome, a dataclass, as it comes, and write the JSON of all to where ``-o`` says.

    Args:
        outcomes: measures, given the folder of the traces.
        folders: what that folder has to hold, for people.
    """
    parser = argparse.ArgumentParser(
        description=sys.modules[outcomes.__module__].__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--traces", type=Path, required=True, help=f"the folder with {folders}")
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    found = []
    for outcome in outcomes(arguments.traces):
        found.append(asdict(outcome))
        print(json.dumps(found[-1]), flush=True)
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def run_benchmark(module: str, arguments: Sequence[str], shown_command: str, file: Path) -> bool:
    """Run a benchmark in a process of its own; write what it found with the machine, as that was before, and the date.

    Args:
        module: below ``tests.performance``; it takes ``-o FILE`` for its JSON.
        arguments: what else it takes.
        shown_command: how to run it again.
        file: where the result goes.

    Returns:
        Whether it succeeded; if not, the file is left as it was.
    """
    machine = this_machine()
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "result.json"
        command = [sys.executable, "-m", f"tests.performance.{module}", *arguments, "-o", str(output)]
        if subprocess.run(command, check=False).returncode or not output.exists():
            return False
        result = json.loads(output.read_text(encoding="utf-8"))
    found = {"command": shown_command, "machine": asdict(machine), "result": result}
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return True
