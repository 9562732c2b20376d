"""Readers of trace files. One file each; which one reads a file is decided by the file's header."""

from laneway.simulator.traces.reader import read_trace

__all__ = ["read_trace"]
