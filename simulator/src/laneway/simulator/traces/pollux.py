"""Pollux' workloads, ``name,time,application,num_replicas,batch_size``, with the measured curves of each application.

The time is in seconds; ``num_replicas`` and ``batch_size`` are the choice of a user who does not know goodput. The curves are in
``ReadOptions.curves``, or in the folder ``traces`` beside the workload or its folder; each application has a folder there with

- ``placements.csv``: ``placement,local_bsz,step_time,sync_time``; a placement has one digit per node: its replicas;
- ``scalability.csv``: ``num_nodes,num_replicas,local_bsz,step_time,sync_time``, for placements beyond those;
- ``validation-<batch size>.csv``: ``progress,iteration,metric,grad_sqr,grad_var`` after each epoch.

Source: https://github.com/petuum/adaptdl, branch ``osdi21-artifact``, ``simulator/`` (Qiao et al., OSDI'21).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from laneway.scheduling import Demand
from laneway.simulator.application import Application, Epoch, StepTime
from laneway.simulator.input_file import InputError
from laneway.simulator.trace import TraceJob
from laneway.simulator.traces.fields import name, number, seconds, whole
from laneway.simulator.traces.rows import Row, headed_format, headed_rows, read_each
from laneway.simulator.traces.trace_format import JobRead, ReadOptions
from laneway.simulator.training import Training

T = TypeVar("T")

COLUMNS = frozenset({"name", "time", "application", "num_replicas", "batch_size"})

MOST_WORKERS = 64
"""The largest number of workers in the curves."""

RIGID = frozenset({"ncf"})
"""Applications that Pollux' evaluation does not scale: one replica, with the workload's batch size."""

MAX_LOCAL_BATCH = {"yolov3": 8}
"""Limits of Pollux' simulator that are below the curves."""


def read_row(row: Row, applications: Mapping[str, Application]) -> TraceJob:
    """Return the job of a line.

    Raises:
        ValueError: a field is wrong, or the application was not measured; the message says which, and what to write.
    """
    application = applications.get(row["application"])
    if application is None:
        raise ValueError(
            f"application is {row['application']!r}, which was not measured: write one of {', '.join(applications)}"
        )
    workers, batch = whole(row, "num_replicas"), whole(row, "batch_size")
    limits = application.limits
    most = min(MOST_WORKERS, limits.max_batch // limits.min_local_batch)
    if not 1 <= workers <= most:
        raise ValueError(f"num_replicas is {workers}: write 1 to {most}")
    if not application.initial_batch <= batch <= limits.max_batch:
        raise ValueError(f"batch_size is {batch}: write {application.initial_batch} to {limits.max_batch}")
    training = Training(application, batch, workers)
    elastic = application.name not in RIGID
    return TraceJob(
        f"default/{name(row, 'name')}",
        Demand(workers, min_workers=1 if elastic else None, max_workers=most if elastic else None),
        seconds(row, "time"),
        training.duration_seconds,
        model=application.name,
        training=training,
    )


def find_curves(workload: Path) -> Path:
    """Return the folder of curves of a workload.

    Raises:
        InputError: there is none.
    """
    folder = workload.absolute().parent
    for place in (folder / "traces", folder.parent / "traces"):
        if any(place.glob("*/placements.csv")):
            return place
    raise InputError(
        f"{workload} gives each job's application but not its speed: put the folder of curves beside it as traces, or "
        "choose one with curves"
    )


def read_applications(folder: Path) -> Mapping[str, Application]:
    """Return the applications with curves in a folder, by name.

    Raises:
        InputError: there is none, or a file cannot be read or is wrong.
    """
    found = {path.parent.name: path.parent for path in sorted(folder.glob("*/placements.csv"))}
    if not found:
        raise InputError(f"{folder} has no <application>/placements.csv: choose the folder of Pollux' curves")
    return {application: _read_application(path) for application, path in found.items()}


def _read_application(folder: Path) -> Application:
    steps: dict[tuple[int, ...], list[tuple[int, StepTime]]] = {}
    for placement, local_batch, time in _each(folder / "placements.csv", _placement):
        steps.setdefault(placement, []).append((local_batch, time))
    scaling = list(_each(folder / "scalability.csv", _scaling))
    validation = {
        _batch_size(path): list(_each(path, _epoch)) for path in sorted(folder.glob("validation-*.csv"))
    }
    if not validation or not all(validation.values()):
        raise InputError(f"{folder} has no validation-<batch size>.csv with epochs in it")
    return Application(
        folder.name,
        {placement: sorted(points) for placement, points in steps.items()},
        scaling,
        validation,
        MAX_LOCAL_BATCH.get(folder.name),
    )


def _each(path: Path, read: Callable[[Row], T]) -> Iterator[T]:
    def with_columns(row: Row) -> T:
        try:
            return read(row)
        except KeyError as error:
            raise ValueError(f"it has no column {error}") from error

    return read_each(path, headed_rows(path), with_columns)


def _placement(row: Row) -> tuple[tuple[int, ...], int, StepTime]:
    digits = row["placement"]
    if not digits.isdecimal() or "0" in digits:
        raise ValueError(f"placement is {digits!r}: write a digit from 1 for each node")
    return tuple(int(digit) for digit in digits), whole(row, "local_bsz"), _step_time(row)


def _scaling(row: Row) -> tuple[int, int, int, StepTime]:
    return whole(row, "num_nodes"), whole(row, "num_replicas"), whole(row, "local_bsz"), _step_time(row)


def _step_time(row: Row) -> StepTime:
    return StepTime(number(row, "step_time"), number(row, "sync_time"))


def _epoch(row: Row) -> Epoch:
    return Epoch(number(row, "progress"), number(row, "grad_sqr"), number(row, "grad_var"))


def _batch_size(path: Path) -> int:
    text = path.stem.removeprefix("validation-")
    if not text.isdecimal():
        raise InputError(f"{path}: name it validation-<batch size>.csv")
    return int(text)


def _jobs(path: Path, options: ReadOptions) -> Iterator[JobRead]:
    applications = read_applications(options.curves or find_curves(path))
    return read_each(path, headed_rows(path), partial(read_row, applications=applications))


FORMAT = headed_format("pollux", COLUMNS, frozenset(), _jobs)
