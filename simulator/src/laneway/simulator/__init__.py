"""Runs Laneway's own policies on traces of jobs.

A trace is read by :func:`read_trace`; a :class:`Simulation` runs it on nodes made by :func:`make_nodes`, with
``laneway.scheduling.plan`` deciding, as the operator has it; :func:`report` sums it up.
"""

from laneway.simulator.cluster import make_nodes
from laneway.simulator.costs import Costs
from laneway.simulator.report import Report, as_json, as_table, percentile, report
from laneway.simulator.simulation import Simulation
from laneway.simulator.trace import TraceError, TraceJob
from laneway.simulator.traces import read_trace

__all__ = [
    "Costs",
    "Report",
    "Simulation",
    "TraceError",
    "TraceJob",
    "as_json",
    "as_table",
    "make_nodes",
    "percentile",
    "read_trace",
    "report",
]
