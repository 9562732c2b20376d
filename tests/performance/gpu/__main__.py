"""Jobs on one GPU in all ways of sharing it; a part of `make test-gpu`, which sees to what this needs.

    python3 tests/gpu --only sharing --results docs/measurements
    python3 -m tests.performance.gpu --only-page --results docs/measurements    # only the page, from a result that was brought here

About seven minutes on a large GPU.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from tests.performance.gpu.tables import GPU
from tests.performance.machine import this_machine
from tests.performance.page import write_page

NAME = "gpu-sharing"


def main() -> int:
    """Measure, show, and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--results", type=Path, help="the folder for the JSON; else it is only shown")
    parser.add_argument("--only-page", action="store_true", help="measure nothing, and write the page again")
    parser.add_argument("--no-page", action="store_true", help="leave the page as it is")
    options = parser.parse_args()
    if not options.only_page:
        from tests.performance.gpu.sharing import measure

        machine = this_machine()
        found = {
            "command": "make test-gpu ONLY=sharing",
            "machine": asdict(machine),
            "result": measure(options.device),
        }
        _, show = GPU.sections[NAME]
        print("".join(show(found["result"])))
        if options.results is None:
            return 0
        options.results.mkdir(parents=True, exist_ok=True)
        (options.results / f"{NAME}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if not options.no_page:
        write_page(options.results, GPU)
    return 0


if __name__ == "__main__":
    sys.exit(main())
