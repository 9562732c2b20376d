"""Readers of trace files, one module per format; ``docs/traces.md`` describes the formats.

``reader`` recognizes a file's format by its beginning. A new format is a module with a ``FORMAT``, listed there. ``trace_format``
defines what a format is; formats are read with ``rows``, ``fields``, ``gang_columns`` and ``json_list``.
"""

from laneway.simulator.traces.native import write_trace
from laneway.simulator.traces.reader import load_trace, read_trace
from laneway.simulator.traces.trace_format import ReadOptions

__all__ = ["ReadOptions", "load_trace", "read_trace", "write_trace"]
