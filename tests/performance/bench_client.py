"""All benchmarks of the client, one after the other, with real PyTorch.

    python -m tests.performance.bench_client --results docs/measurements

``--only cost,offload`` runs some of them. Each result is written with the machine and the date, and the tables of
``docs/measurements.md`` are written again from them at the end. Takes about eight minutes.
"""

from __future__ import annotations

import sys

from tests.performance.bench_block import run_block
from tests.performance.client.tables import CLIENT

MODULES = {
    "start": "client.start",
    "cost": "client.cost",
    "offload": "client.offload",
    "fit": "client.fit",
}
"""Below ``tests.performance``, by name, in the order in which they run."""

if __name__ == "__main__":
    sys.exit(run_block(CLIENT, MODULES, __doc__, prefix="client-"))
