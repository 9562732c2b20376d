"""SenseTime's Helios clusters: ``cluster_log.csv``, one job per line, recorded by Slurm.

``duration`` is the seconds from start to end; jobs that failed or were cancelled count for the time that they ran. The namespace is
the virtual cluster (``vc``). Jobs without GPUs and jobs that never ran are skipped.
Source: https://github.com/S-Lab-System-Group/HeliosData (Hu et al., SC'21).
"""

from __future__ import annotations

from laneway.simulator.traces.gang_columns import GangColumns
from laneway.simulator.traces.rows import each_line, headed_format

REQUIRED = frozenset({"job_id", "user", "vc", "gpu_num", "submit_time", "duration"})
OPTIONAL = frozenset({"cpu_num", "node_num", "state", "start_time", "end_time", "queue"})

_LINE = GangColumns(
    "job_id", "gpu_num", "submit_time", "duration", namespace="vc", user="user", recorded=True
)

FORMAT = headed_format("helios", REQUIRED, OPTIONAL, each_line(_LINE.read), recorded=True)
