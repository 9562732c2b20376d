"""Synergy's traces: lines without a header, ``job_id,model,arrival,iterations,gpus``; the arrival in seconds.

A job's duration is its iterations times the model's iteration time (:data:`ITERATION_SECONDS`). That was measured with a proportional
share of the node: 3 CPUs and 62.5 GB per GPU, of 24 CPUs and 500 GB for 8 V100 GPUs. Synergy counts the same time on several GPUs.
Source: https://github.com/msr-fiddle/synergy (Mohan et al., OSDI'22), ``simulator/jobs/workload.py``
(``populate_from_trace``) and ``simulator/models/*_1.py`` (``iter_time``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from laneway.simulator.models.synergy import SENSITIVITIES
from laneway.simulator.trace import TraceJob
from laneway.simulator.traces.fields import name, seconds, whole
from laneway.simulator.traces.rows import bare_rows, read_each
from laneway.simulator.traces.trace_format import Format, Head, JobRead, ReadOptions, gang

COLUMNS = ("job_id", "model", "arrival", "iterations", "gpus")

ITERATION_SECONDS = {
    "alexnet": 0.6,
    "deepspeech": 0.757,
    "gnmt": 0.12,
    "lstm": 0.011,
    "m5": 0.6,
    "mobilenet": 0.71,
    "res18": 0.64,
    "res50": 0.78,
    "shufflenet": 0.615,
    "transformer": 0.67,
}


def read_row(row: Mapping[str, str]) -> TraceJob:
    """Return the job of a line.

    Raises:
        ValueError: a field is wrong, or the model was not measured; the message says which, and what to write.
    """
    model = name(row, "model")
    if model not in ITERATION_SECONDS:
        raise ValueError(
            f"model is {model!r}, which was not measured: write one of {', '.join(ITERATION_SECONDS)}"
        )
    return TraceJob(
        f"default/{name(row, 'job_id')}",
        gang(whole(row, "gpus")),
        seconds(row, "arrival"),
        whole(row, "iterations") * ITERATION_SECONDS[model],
        model=model,
        sensitivity=SENSITIVITIES[model],
    )


def _recognize(head: Head) -> bool:
    line = r"\d+\s*,\s*[A-Za-z]\w*\s*,\s*\d*\.?\d*\s*,\s*\d+\s*,\s*\d+\s*"
    return re.fullmatch(line, head.text) is not None


def _jobs(path: Path, _: ReadOptions) -> Iterator[JobRead]:
    return read_each(path, bare_rows(path, COLUMNS), read_row)


FORMAT = Format("synergy", f"without a header: {','.join(COLUMNS)}", _recognize, _jobs)
