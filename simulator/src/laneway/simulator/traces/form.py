"""What a trace format is: how a file of it is recognised, and how its jobs are read, one after the other."""

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
    """What a reader has to be told beyond the file. Each field concerns the format that its docstring names."""

    limit: int | None = None
    """Every format: the first so many jobs by submission; None: all."""

    gpu_type: str = "v100"
    """Gavel: the GPUs on which a job takes its ``duration_seconds``; a key of the throughputs file."""

    throughputs: Path | None = None
    """Gavel: the file of measured throughputs; None: the one beside the trace or its folder."""

    curves: Path | None = None
    """Pollux: the folder of measured curves; None: ``traces`` beside the workload or its folder."""

    durations: str = "column"
    """Muri: ``column``: what the column ``duration`` says; ``iterations``: what Muri's own simulator runs."""

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit is {self.limit}: write 1 or more")
        if self.durations not in ("column", "iterations"):
            raise ValueError(f"durations is {self.durations!r}: write column or iterations")


class LeftOut(NamedTuple):
    """A job of the file that is not simulated."""

    reason: str
    """A clause: "it uses no GPU"."""


NO_GPU = LeftOut("it uses no GPU")
NEVER_RAN = LeftOut("it never ran")
NO_TIME = LeftOut("it ran for no time")
STILL_RAN = LeftOut("it still ran when the log ended")

JobRead = TraceJob | LeftOut


@dataclass(frozen=True)
class Head:
    """The beginning of a file, by which its format is recognised."""

    text: str
    """Its first line, or the beginning of that."""

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The first line's fields, as of a CSV; empty where it is none."""
        try:
            return tuple(field.strip() for field in next(csv.reader([self.text], strict=True), []))
        except csv.Error:
            return ()


@dataclass(frozen=True, slots=True)
class Format:
    """A format of trace files."""

    name: str
    looks: str
    """What the first line of such a file is, for people."""

    recognise: Callable[[Head], bool]
    jobs: Callable[[Path, ReadOptions], Iterator[JobRead]]
    """Reads one job after the other; raises TraceError."""

    recorded: bool = False
    """The file is a log of what happened: its clock begins with its first job, and a job that it lists twice counts once.
    Else times count from 0, and a job that is listed twice is a mistake."""

    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    """Columns, of a format that is a CSV with a header."""


@lru_cache(maxsize=1024)
def gang(gpus: int) -> Demand:
    """Return the demand of a job of which nothing is known but how many GPUs it uses: so many workers with one each."""
    return Demand(gpus)
