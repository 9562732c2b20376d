"""The benchmark of sharing on a real cluster, with the machine, the date and its tables in ``docs/measurements.md``.

    python -m tests.performance.bench_sharing --results docs/measurements

About seven minutes on a machine that has built the cluster's programs and images before.
"""

from __future__ import annotations

import sys

from tests.performance.bench_block import run_block
from tests.performance.sharing.tables import SHARING

if __name__ == "__main__":
    sys.exit(run_block(SHARING, {"sharing": "sharing"}, __doc__))
