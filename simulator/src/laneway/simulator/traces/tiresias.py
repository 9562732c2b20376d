"""The CSV of Tiresias' simulator: ``job_id,num_gpu,submit_time,iterations,model_name,duration,interval``.

Times are seconds. A job of n GPUs is a gang of n workers with a GPU each. ``interval`` (the time since the submission
before) and ``iterations`` say nothing that the other columns don't.
Source: https://github.com/SymbioticLab/Tiresias, ``simulator/jobs.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

from laneway.simulator.trace import TraceJob
from laneway.simulator.traces.fields import name, seconds, whole
from laneway.simulator.traces.form import gang
from laneway.simulator.traces.rows import each_line, headed_format

REQUIRED = frozenset({"job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "interval"})


def read_row(row: Mapping[str, str]) -> TraceJob:
    """Return the job of a line.

    Raises:
        ValueError: a field is wrong; says which, and what to write.
    """
    return TraceJob(
        f"default/{name(row, 'job_id')}",
        gang(whole(row, "num_gpu")),
        seconds(row, "submit_time"),
        seconds(row, "duration"),
        model=row["model_name"],
    )


FORMAT = headed_format("tiresias", REQUIRED, frozenset(), each_line(read_row))
