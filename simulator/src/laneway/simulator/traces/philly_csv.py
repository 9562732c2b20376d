"""Microsoft's Philly clusters, published by Pollux: ``timestamp,duration,num_gpus,gpu_time,cluster``, one job per line.

``timestamp`` is the submission, ``duration`` is in seconds. The namespace is the (virtual) cluster. Jobs have no names; their line
numbers stand in. ``gpu_time`` is the product of two other columns.
Source: https://github.com/petuum/adaptdl, branch ``osdi21-artifact``, ``simulator/traces/philly.csv`` (Qiao et al., OSDI'21).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from laneway.simulator.traces.gang_columns import GangColumns
from laneway.simulator.traces.rows import headed_format, headed_rows, numbered, read_each
from laneway.simulator.traces.trace_format import JobRead, ReadOptions

REQUIRED = frozenset({"timestamp", "duration", "num_gpus", "gpu_time", "cluster"})

_LINE = GangColumns("line", "num_gpus", "timestamp", "duration", namespace="cluster", recorded=True)


def _jobs(path: Path, _: ReadOptions) -> Iterator[JobRead]:
    return read_each(path, numbered(headed_rows(path)), _LINE.read)


FORMAT = headed_format("philly-csv", REQUIRED, frozenset(), _jobs, recorded=True)
