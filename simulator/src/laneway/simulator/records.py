"""What a cluster recorded of its jobs.

A file of records is the JSON of ``kubectl get trainingjobs,gpunodes,nodes,priorityclasses,events.events.k8s.io -A -o json``.
TrainingJobs give each job's submission, first run, end, total running time and profile. The rest is optional: GPUNodes describe the
cluster, Nodes its racks and zones, PriorityClasses give the jobs' priorities, and Events show how long placed jobs took to start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from laneway.api.conditions import is_true
from laneway.api.job_conditions import ConditionType
from laneway.api.rfc3339 import parse_time
from laneway.api.training_job import TrainingJobSpec
from laneway.api.training_job_status import TrainingJobStatus
from laneway.scheduling import Node
from laneway.scheduling.model.measured_profile import profile_of
from laneway.scheduling.model.spec_demand import demand_of
from laneway.scheduling.model.topology_levels import DEFAULT_LEVELS
from laneway.simulator.input_file import InputError, read_json
from laneway.simulator.nodes_file import nodes_of_records
from laneway.simulator.trace import TraceJob


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job that ended. Times are seconds since the first submission."""

    job: TraceJob
    """Its duration is the time that it ran in the cluster, over all attempts."""

    finish_seconds: float
    start_seconds: float
    """When it first ran."""

    preemptions: int
    restarts: int

    @property
    def jct_seconds(self) -> float:
        """From submission to finish."""
        return self.finish_seconds - self.job.submit_seconds


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a cluster."""

    jobs: tuple[JobRecord, ...]
    """Ordered by submission."""

    nodes: tuple[Node, ...]
    """Empty: the records have no GPUNodes with GPUs."""

    skipped: Mapping[str, int]
    """The number of jobs that cannot be replayed, by reason; the reason is a clause, "it never ran"."""

    start_seconds: float | None
    """Mean time from a job's first placement to its first run; None: not recorded."""

    restart_seconds: float | None
    """The same for later attempts."""


def read_records(path: Path, levels: Sequence[str] = DEFAULT_LEVELS) -> Records:
    """Return the records of a file.

    Args:
        path: the file.
        levels: labels of racks and zones, from the widest level to the narrowest.

    Raises:
        InputError: the file cannot be read, or no job in it has ended.
    """
    value = read_json(path, "records")
    items = value.get("items", [value]) if isinstance(value, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise InputError(
            f"{path} is not a list of objects: give the JSON of kubectl get trainingjobs -A -o json"
        )
    kinds: dict[str, list[dict[str, Any]]] = {}
    for item in items:
        kinds.setdefault(str(item.get("kind")), []).append(item)
    priorities = {
        item["metadata"]["name"]: int(item.get("value", 0)) for item in kinds.get("PriorityClass", [])
    }
    skipped: Counter[str] = Counter()
    jobs = list(_jobs(kinds.get("TrainingJob", []), priorities, skipped))
    if not jobs:
        why = "".join(f"; {count}: {reason}" for reason, count in sorted(skipped.items()))
        raise InputError(f"{path} has no TrainingJob that ended{why}")
    start_seconds, restart_seconds = _latencies(kinds.get("Event", []))
    return Records(
        _from_first(jobs),
        nodes_of_records(kinds.get("GPUNode", []), str(path), levels, kinds.get("Node", [])),
        dict(skipped),
        start_seconds,
        restart_seconds,
    )


def _jobs(
    items: Iterable[dict[str, Any]], priorities: Mapping[str, int], skipped: Counter[str]
) -> Iterable[JobRecord]:
    for item in items:
        try:
            spec = TrainingJobSpec.model_validate(item.get("spec"))
            status = TrainingJobStatus.model_validate(item.get("status") or {})
            demand = demand_of(spec)
            executed_seconds = status.executed_milliseconds / 1000
        except ValueError:
            skipped["its spec or its status cannot be read"] += 1
            continue
        ended = is_true(status.conditions, ConditionType.COMPLETE) or is_true(
            status.conditions, ConditionType.FAILED
        )
        if not ended or status.completion_time is None:
            skipped["it has not ended"] += 1
        elif status.start_time is None or executed_seconds <= 0:
            skipped["it never ran"] += 1
        else:
            yield JobRecord(
                TraceJob(
                    f"{item['metadata']['namespace']}/{item['metadata']['name']}",
                    demand,
                    _submitted_seconds(item["metadata"]["creationTimestamp"], status),
                    executed_seconds,
                    priority=priorities.get(spec.priority_class_name or "", 0),
                    profile=None if status.profile is None else profile_of(status.profile),
                ),
                parse_time(status.completion_time),
                parse_time(status.start_time),
                status.preemptions,
                status.restarts,
            )


def _submitted_seconds(creation: str, status: TrainingJobStatus) -> float:
    """Return when a job was created. Its timestamp is rounded down to whole seconds; the operator saw the job soon after."""
    created = parse_time(creation)
    seen = [
        parse_time(condition.last_transition_time)
        for condition in status.conditions
        if condition.type == ConditionType.ACCEPTED
    ]
    return max(created, min([created + 1.0, *seen])) if seen else created


def _from_first(jobs: list[JobRecord]) -> tuple[JobRecord, ...]:
    """Return the jobs with times since the first submission."""
    first = min(record.job.submit_seconds for record in jobs)
    moved = (_moved(record, -first) for record in jobs)
    return tuple(sorted(moved, key=lambda record: (record.job.submit_seconds, record.job.key)))


def _moved(record: JobRecord, by_seconds: float) -> JobRecord:
    return replace(
        record,
        job=replace(record.job, submit_seconds=max(0.0, record.job.submit_seconds + by_seconds)),
        start_seconds=record.start_seconds + by_seconds,
        finish_seconds=record.finish_seconds + by_seconds,
    )


def _latencies(events: Iterable[dict[str, Any]]) -> tuple[float | None, float | None]:
    """Return the mean time from Placed to Started, of first and of later attempts."""
    happened: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for event in events:
        about = event.get("regarding") or event.get("involvedObject") or {}
        time = event.get("eventTime")
        if about.get("kind") == "TrainingJob" and event.get("reason") in ("Placed", "Started") and time:
            job = (str(about.get("namespace")), str(about.get("uid") or about.get("name")))
            happened.setdefault(job, []).append((parse_time(time), str(event["reason"])))
    first: list[float] = []
    later: list[float] = []
    for times in happened.values():
        placed: float | None = None
        starts = 0
        for seconds, reason in sorted(times):
            if reason == "Placed":
                placed = seconds
            elif placed is not None:
                (later if starts else first).append(seconds - placed)
                starts, placed = starts + 1, None
    return (fmean(first) if first else None, fmean(later) if later else None)
