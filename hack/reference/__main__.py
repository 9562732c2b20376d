"""`python -m hack.reference`: writes the reference pages in docs/; with ``--check`` names the outdated ones."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hack.reference.api import api_page
from hack.reference.cli import cli_page
from hack.reference.metrics import metrics_page
from hack.reference.python import python_page

DOCS = Path(__file__).resolve().parents[2] / "docs"


def main() -> int:
    """Writes the pages, or checks them; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m hack.reference", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is outdated")
    check: bool = parser.parse_args().check
    pages = {
        DOCS / "api.md": api_page(),
        DOCS / "cli.md": cli_page(),
        DOCS / "metrics.md": metrics_page(),
        DOCS / "python.md": python_page(),
    }
    if not check:
        for path, text in pages.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [
        f"docs/{path.name}"
        for path, text in pages.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if stale:
        print(f"outdated: {', '.join(stale)}; run `make generate` and commit the result", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
