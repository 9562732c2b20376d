"""The CSV of Tiresias' simulator: ``job_id,num_gpu,submit_time,iterations,model_name,duration,interval``.

Times are seconds. ``interval`` (the time since the previous submission) and ``iterations`` add nothing to the other columns.
Source: https://github.com/SymbioticLab/Tiresias, ``simulator/jobs.py``.
"""

from __future__ import annotations

from laneway.simulator.traces.gang_columns import GangColumns
from laneway.simulator.traces.rows import each_line, headed_format

REQUIRED = frozenset({"job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "interval"})

_LINE = GangColumns("job_id", "num_gpu", "submit_time", "duration", model="model_name")

FORMAT = headed_format("tiresias", REQUIRED, frozenset(), each_line(_LINE.read))
