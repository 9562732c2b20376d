"""What a trace format is: how its files are recognized, and how their jobs are read one by one."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from laneway.scheduling import Demand
from laneway.simulator.trace import TraceJob


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a reader needs to know beyond the file. Each field's docstring names the format that it concerns."""

    limit: int | None = None
    """Every format: read only this many jobs, in order of submission; None: all."""

    gpu_type: str = "v100"
    """Gavel: the GPUs on which a job takes its ``duration_seconds``; a key of the throughputs file."""

    throughputs: Path | None = None
    """Gavel: the file of measured throughputs; None: the one beside the trace or its folder."""

    curves: Path | None = None
    """Pollux: the folder of measured curves; None: ``traces`` beside the workload or its folder."""

    durations: str = "column"
    """Muri: ``column``: the column ``duration``; ``iterations``: the durations that Muri's own simulator uses."""

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit is {self.limit}: write 1 or more")
        if self.durations not in ("column", "iterations"):
            raise ValueError(f"durations is {self.durations!r}: write column or iterations")


class Skipped(NamedTuple):
    """A job of the file that is not simulated."""

    reason: str
    """A clause: "it uses no GPU"."""


NO_GPU = Skipped("it uses no GPU")
NEVER_RAN = Skipped("it never ran")
NO_TIME = Skipped("it ran for no time")
STILL_RUNNING = Skipped("it was still running when the log ended")

JobRead = TraceJob | Skipped


@dataclass(frozen=True)
class Head:
    """The beginning of a file; its format is recognized by it."""

    text: str
    """The first line, or the beginning of it."""

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The first line's fields, read as CSV; empty if it is not CSV."""
        try:
            return tuple(field.strip() for field in next(csv.reader([self.text], strict=True), []))
        except csv.Error:
            return ()


@dataclass(frozen=True, slots=True)
class Format:
    """A format of trace files."""

    name: str
    first_line: str
    """Describes the first line of such a file, for error messages."""

    recognize: Callable[[Head], bool]
    jobs: Callable[[Path, ReadOptions], Iterator[JobRead]]
    """Reads the jobs one by one; raises InputError."""

    recorded: bool = False
    """The file is the log of a real cluster: its clock starts with its first job, and a job that is listed twice counts once.
    Otherwise times count from 0, and a job that is listed twice is an error."""

    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    """Columns of a CSV with a header."""


@lru_cache(maxsize=1024)
def gang(gpus: int) -> Demand:
    """Return the demand of a gang with one GPU per worker: for traces that give only a job's number of GPUs."""
    return Demand(gpus)
