"""`python -m hack.chart`: writes the chart's generated files; with ``--check`` says which are not current.

Generated: `files/crds/` (copies of the tree's `crds/`), `values.schema.json`, `dashboards/laneway.json`, the tables in `README.md`.
"""

from __future__ import annotations

import argparse
import sys

from hack.chart.generated import generated_files, stale_files


def main() -> int:
    """Writes the files, or checks them; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m hack.chart", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 when a file is not current"
    )
    if parser.parse_args().check:
        stale = stale_files()
        if stale:
            print(
                f"not current: {', '.join(stale)}; run `python -m hack.chart` and commit the result",
                file=sys.stderr,
            )
        return 1 if stale else 0
    for path, text in generated_files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
