"""Runs Laneway's own policies on traces of jobs.

A trace is read by :func:`read_trace`, nodes are made by :func:`make_nodes`, and :func:`make_setup` chooses policies, costs and
speeds by name. A :class:`Simulation` runs them, with ``laneway.scheduling.Scheduler`` deciding, as the operator has it;
:func:`report` sums it up, and :func:`html_page` shows it. :func:`compared` says how far it is from what a cluster recorded.
"""

from laneway.simulator.cluster import make_nodes
from laneway.simulator.costs import Costs
from laneway.simulator.html_report import Outcome, html_page, outcome_of
from laneway.simulator.knowledge import Knowledge
from laneway.simulator.nodes_file import NodesError, read_nodes
from laneway.simulator.records import Records, read_records
from laneway.simulator.replay import Comparison, compared, comparison_as_json, costs_as_recorded
from laneway.simulator.report import Report, as_json, as_table, percentile, report
from laneway.simulator.setup import Setup, make_setup
from laneway.simulator.sharing import Sharing
from laneway.simulator.simulation import Simulation
from laneway.simulator.trace import TraceError, TraceJob, TraceRead
from laneway.simulator.traces import ReadOptions, load_trace, read_trace, write_trace

__all__ = [
    "Comparison",
    "Costs",
    "Knowledge",
    "NodesError",
    "Outcome",
    "ReadOptions",
    "Records",
    "Report",
    "Setup",
    "Sharing",
    "Simulation",
    "TraceError",
    "TraceJob",
    "TraceRead",
    "as_json",
    "as_table",
    "compared",
    "comparison_as_json",
    "costs_as_recorded",
    "html_page",
    "load_trace",
    "make_nodes",
    "make_setup",
    "outcome_of",
    "percentile",
    "read_nodes",
    "read_records",
    "read_trace",
    "report",
    "write_trace",
]
