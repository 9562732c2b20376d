"""The benchmark of elastic jobs on a real cluster, with the machine, the date and its tables in ``docs/measurements.md``.

    python -m tests.performance.bench_elastic --results docs/measurements

About ten minutes on a machine that has built the cluster's programs and images before.
"""

from __future__ import annotations

import sys

from tests.performance.bench_block import run_block
from tests.performance.rescaling.tables import ELASTIC

if __name__ == "__main__":
    sys.exit(run_block(ELASTIC, {"elastic-cluster": "rescaling"}, __doc__))
