"""The CSV of Tiresias' simulator: ``job_id,num_gpu,submit_time,iterations,model_name,duration,interval``.

Times are seconds. A job of n GPUs is a gang of n workers with a GPU each. ``interval`` (the time since the submission
before) and ``iterations`` say nothing that the other columns don't.
Source: https://github.com/SymbioticLab/Tiresias, ``simulator/jobs.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

from laneway.scheduling import Demand
from laneway.simulator.trace import TraceJob
from laneway.simulator.traces.fields import seconds, whole

REQUIRED = frozenset({"job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "interval"})
OPTIONAL: frozenset[str] = frozenset()


def read_row(row: Mapping[str, str]) -> TraceJob:
    """Return the job of a line.

    Raises:
        ValueError: a field is wrong; says which, and what to write.
    """
    if not row["job_id"]:
        raise ValueError("job_id is empty: write a number or a name")
    return TraceJob(
        f"default/{row['job_id']}",
        Demand(whole(row, "num_gpu")),
        seconds(row, "submit_time"),
        seconds(row, "duration"),
    )
