"""`python -m hack.verify CHECK`: checks of the repository. Prints one line per passed check; exits 1 if one fails."""

from __future__ import annotations

import argparse
import sys

from hack.verify.chart import check_chart
from hack.verify.failure import CheckFailedError
from hack.verify.test_imports import check_test_imports
from hack.verify.vocabulary import check_vocabulary

CHECKS = {"chart": check_chart, "tests": check_test_imports, "words": check_vocabulary}


def main() -> int:
    """Runs the check named on the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m hack.verify", description=__doc__)
    parser.add_argument(
        "check",
        choices=CHECKS,
        help="chart: helm lint, kubeconform, promtool; tests: imports between test modules; words: removed identifiers, commit subjects",
    )
    options = parser.parse_args()
    try:
        for line in CHECKS[options.check]():
            print(line, flush=True)
    except CheckFailedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
