"""`python -m hack.chart`: writes the chart's generated files; with ``--check`` names the outdated ones.

Generated: `files/crds/` (copies of the tree's `crds/`), `files/defaults.yaml`, `values.schema.json`, `dashboards/`, `CONFIGURATION.md`,
`README.md`.
"""

from __future__ import annotations

import argparse
import sys

from hack.chart.generated import CHART, generated_files, stale_files
from hack.chart.readme import readme


def main() -> int:
    """Writes the files, or checks them; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m hack.chart", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is outdated")
    check: bool = parser.parse_args().check
    files = {**generated_files(), CHART / "README.md": readme(CHART)}
    if check:
        stale = stale_files(files)
        if stale:
            print(f"outdated: {', '.join(stale)}; run `make generate` and commit the result", file=sys.stderr)
        return 1 if stale else 0
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
