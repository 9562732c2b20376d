"""The benchmarks of `make test-gpu`, which sees to what they need: jobs on one GPU in all ways of sharing it, and how a share holds.

python3 tests/gpu --only sharing --results docs/measurements
python3 tests/gpu --only shares --results docs/measurements
python3 -m tests.performance.gpu --only-page --results docs/measurements    # only the page, from results that were brought here
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
from dataclasses import asdict
from pathlib import Path

from tests.performance.gpu.tables import GPU
from tests.performance.machine import this_machine
from tests.performance.page import write_page

PARTS = {
    "sharing": {"gpu-sharing": "sharing"},
    "shares": {
        "gpu-memory-account": "memory_account",
        "gpu-launch-gate": "launch_gate",
        "gpu-shares": "shares",
    },
}
"""By part of `make test-gpu`, the name of each result, and the module that measures it."""


def main() -> int:
    """Measure, show, and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--results", type=Path, help="the folder for the JSON; else it is only shown")
    parser.add_argument("--only-page", action="store_true", help="measure nothing, and write the page again")
    parser.add_argument("--no-page", action="store_true", help="leave the page as it is")
    parser.add_argument("--part", choices=PARTS, default="sharing")
    options = parser.parse_args()
    if not options.only_page:
        for name, module in PARTS[options.part].items():
            _measure(name, module, options)
        if options.results is None:
            return 0
    if options.no_page:
        return 0
    if importlib.util.find_spec("mdformat") is None:
        print(
            f"{options.results}: the page is not written, because this Python has no mdformat: copy the folder to a checkout, and run "
            "python -m tests.performance.gpu --only-page --results FOLDER"
        )
        return 0
    write_page(options.results, GPU)
    return 0


def _measure(name: str, module: str, options: argparse.Namespace) -> None:
    machine = this_machine()
    measure = importlib.import_module(f"tests.performance.gpu.{module}").measure
    found = {
        "command": f"make test-gpu ONLY={options.part}",
        "machine": asdict(machine),
        "result": measure(options.device),
    }
    heading, show = GPU.sections[name]
    print(f"## {heading}\n\n" + "".join(show(found["result"])))
    if options.results is not None:
        options.results.mkdir(parents=True, exist_ok=True)
        (options.results / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
