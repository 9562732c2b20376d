"""Runs Laneway's own policies on traces of jobs.

:func:`load_trace` and :func:`read_nodes` read a trace and a cluster; :func:`make_setup` chooses policies, costs and speeds by name. A
:class:`Simulation` runs them with the operator's ``laneway.scheduling.Scheduler``. :func:`report` returns its figures, and
:func:`html_page` a page with plots. :func:`compare` compares it with the records of a cluster.
"""

from laneway.simulator.cluster import make_nodes
from laneway.simulator.costs import Costs
from laneway.simulator.html_report import Outcome, html_page, outcome_of
from laneway.simulator.input_file import InputError
from laneway.simulator.knowledge import Knowledge
from laneway.simulator.nodes_file import read_nodes
from laneway.simulator.operator_model import IDEAL, Failures, Latencies, OperatorModel
from laneway.simulator.records import Records, read_records
from laneway.simulator.replay import (
    Comparison,
    compare,
    comparison_as_json,
    costs_as_recorded,
    operator_as_recorded,
)
from laneway.simulator.report import Report, as_json, as_table, percentile, report
from laneway.simulator.setup import Setup, make_setup
from laneway.simulator.sharing import Sharing
from laneway.simulator.simulation import Simulation
from laneway.simulator.trace import TraceJob, TraceRead
from laneway.simulator.traces import ReadOptions, load_trace, read_trace, write_trace

__all__ = [
    "IDEAL",
    "Comparison",
    "Costs",
    "Failures",
    "InputError",
    "Knowledge",
    "Latencies",
    "OperatorModel",
    "Outcome",
    "ReadOptions",
    "Records",
    "Report",
    "Setup",
    "Sharing",
    "Simulation",
    "TraceJob",
    "TraceRead",
    "as_json",
    "as_table",
    "compare",
    "comparison_as_json",
    "costs_as_recorded",
    "html_page",
    "load_trace",
    "make_nodes",
    "make_setup",
    "operator_as_recorded",
    "outcome_of",
    "percentile",
    "read_nodes",
    "read_records",
    "read_trace",
    "report",
    "write_trace",
]
