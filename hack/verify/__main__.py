"""`python -m hack.verify chart`: checks that need more than the Python environment. One line a check; status 1 where one fails."""

from __future__ import annotations

import argparse
import sys

from hack.verify.chart import WrongError, check_chart


def main() -> int:
    """Runs the checks named on the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m hack.verify", description=__doc__)
    parser.add_argument(
        "what", choices=["chart"], help="chart: helm lint, kubeconform, promtool, generated files"
    )
    parser.parse_args()
    try:
        for line in check_chart():
            print(line, flush=True)
    except WrongError as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
