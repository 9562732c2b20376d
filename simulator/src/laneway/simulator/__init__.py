"""Runs Laneway's own policies on traces of jobs.

A trace is read by :func:`read_trace` (or :func:`load_trace`, which also says what was left out); a :class:`Simulation` runs it
on nodes made by :func:`make_nodes`, with ``laneway.scheduling.plan`` deciding, as the operator has it; :func:`report` sums
it up.
"""

from laneway.simulator.cluster import make_nodes
from laneway.simulator.costs import Costs
from laneway.simulator.report import Report, as_json, as_table, percentile, report
from laneway.simulator.simulation import Simulation
from laneway.simulator.trace import TraceError, TraceJob, TraceRead
from laneway.simulator.traces import ReadOptions, load_trace, read_trace, write_trace

__all__ = [
    "Costs",
    "ReadOptions",
    "Report",
    "Simulation",
    "TraceError",
    "TraceJob",
    "TraceRead",
    "as_json",
    "as_table",
    "load_trace",
    "make_nodes",
    "percentile",
    "read_trace",
    "report",
    "write_trace",
]
