"""Readers of trace files, one file for each format; ``docs/traces.md`` describes the formats.

``reader`` finds the format that a file's beginning shows, and lets that read the jobs; a new format is a module with a ``FORMAT``,
listed there. ``form`` says what a format is, ``fields``, ``rows`` and ``json_list`` are what formats are read with.
"""

from laneway.simulator.traces.form import ReadOptions
from laneway.simulator.traces.native import write_trace
from laneway.simulator.traces.reader import load_trace, read_trace

__all__ = ["ReadOptions", "load_trace", "read_trace", "write_trace"]
