"""All benchmarks of the scheduling core, one after the other; each result is written with the machine and the date.

    python -m tests.performance.bench_scheduling --traces ../shared/traces --results docs/measurements

``--only speed,better`` runs some of them. If the folder of traces does not exist, the results that need it stay as they are. At the
end the tables of ``docs/measurements.md`` are written again from the JSON files.
"""

from __future__ import annotations

import sys

from tests.performance.bench_block import run_block
from tests.performance.scheduling_tables import SCHEDULING

MODULES = {
    "fidelity": "fidelity",
    "better": "better",
    "gittins": "gittins_learning",
    "lanes": "lanes",
    "liveness": "liveness",
    "speed": "decision_speed",
    "simulation": "simulation_speed",
    "elastic": "elastic",
    "estimates": "estimates",
    "gpu-speeds": "gpu_speeds",
    "mixed-gpus": "mixed_gpus",
    "fragmentation": "fragmentation",
    "synergy": "synergy",
    "real-workload": "real_workload",
    "real-cluster": "real_cluster",
}
"""Below ``tests.performance``, by name, in the order in which they run."""

ON_TRACES = (
    "fidelity",
    "better",
    "gittins",
    "lanes",
    "elastic",
    "estimates",
    "gpu-speeds",
    "mixed-gpus",
    "fragmentation",
)

ON_REQUEST = ("lanes", "fragmentation", "synergy", "real-workload", "real-cluster")
"""The first three take long, the others need a cluster."""

if __name__ == "__main__":
    sys.exit(run_block(SCHEDULING, MODULES, __doc__, on_traces=ON_TRACES, on_request=ON_REQUEST))
