"""Laneway's own trace format: CSV with a header; times in seconds, sizes in bytes. ``docs/traces.md`` describes it.

Required columns: ``job`` (``name`` or ``namespace/name``), ``submit_seconds``, ``duration_seconds``. In the other columns an empty
field means the same as a missing column.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from laneway.scheduling import Demand, HostResources, PlacementMode, Profile
from laneway.scheduling.model.host_resources import CPU, MEMORY
from laneway.scheduling.model.snapshot import StageSeconds
from laneway.simulator.input_file import InputError
from laneway.simulator.trace import TraceJob
from laneway.simulator.traces.fields import name, number, seconds, whole
from laneway.simulator.traces.rows import each_line, headed_format
from laneway.simulator.traces.sensitivity_field import read_sensitivity, write_sensitivity

REQUIRED = ("job", "submit_seconds", "duration_seconds")
EXAMPLE_HEADER = f"{','.join(REQUIRED)},workers"
STAGES = ("storage_seconds", "cpu_seconds", "gpu_seconds", "network_seconds")
SIZES = ("persistent_bytes", "ephemeral_bytes")
PROFILE = (*SIZES, "iteration_seconds", "model_bytes", "largest_tensor_bytes", *STAGES)
OPTIONAL = (
    "workers",
    "gpus_per_worker",
    "share_percent",
    "memory_bytes",
    "models",
    "exclusive",
    "placement",
    "min_workers",
    "max_workers",
    "priority",
    "model",
    "user",
    "expected_seconds",
    "sensitivity",
    "cpus",
    "host_memory_bytes",
    "unseen_cpus",
    "saves",
    "checkpoint_seconds",
    *PROFILE,
)


def read_row(row: Mapping[str, str]) -> TraceJob:
    """Return the job of a line.

    Raises:
        ValueError: a field is wrong; the message says which, and what to write.
    """
    key = name(row, "job")
    return TraceJob(
        key if "/" in key else f"default/{key}",
        Demand(
            workers=whole(row, "workers", 1),
            gpus_per_worker=whole(row, "gpus_per_worker", 1),
            share_percent=whole(row, "share_percent", 100),
            memory_bytes=whole(row, "memory_bytes") if row.get("memory_bytes") else None,
            models=frozenset(model for model in row.get("models", "").split("|") if model),
            exclusive=_flag(row, "exclusive"),
            mode=_mode(row),
            min_workers=whole(row, "min_workers") if row.get("min_workers") else None,
            max_workers=whole(row, "max_workers") if row.get("max_workers") else None,
            requests=HostResources.of({CPU: _millis(row, "cpus"), MEMORY: _size(row, "host_memory_bytes")}),
        ),
        seconds(row, "submit_seconds"),
        seconds(row, "duration_seconds"),
        priority=whole(row, "priority", 0),
        profile=_profile(row),
        model=row.get("model", ""),
        user=row.get("user", ""),
        expected_seconds=seconds(row, "expected_seconds") if row.get("expected_seconds") else None,
        sensitivity=read_sensitivity(row["sensitivity"]) if row.get("sensitivity") else None,
        saves=_flag(row, "saves", default=True),
        checkpoint_seconds=seconds(row, "checkpoint_seconds") if row.get("checkpoint_seconds") else None,
        unseen_requests=HostResources.of({CPU: _millis(row, "unseen_cpus")}),
    )


FORMAT = headed_format("laneway", frozenset(REQUIRED), frozenset(OPTIONAL), each_line(read_row))


def write_trace(jobs: Iterable[TraceJob], path: Path) -> None:
    """Write jobs in Laneway's own format; :func:`read_trace` returns the same jobs. Columns without any value are omitted.

    Raises:
        InputError: the file cannot be written, or a job has a name that the format cannot hold.
    """
    rows = [_row(job) for job in jobs]
    used = [column for column in OPTIONAL if any(row[column] for row in rows)]
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, [*REQUIRED, *used], extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    except OSError as error:
        raise InputError(f"cannot write the trace {path}: {error.strerror}") from error


def _row(job: TraceJob) -> dict[str, str]:
    demand = job.demand
    _refuse_unwritable(job)
    row = {
        "job": job.key,
        "submit_seconds": repr(job.submit_seconds),
        "duration_seconds": repr(job.duration_seconds),
        "workers": _unless(1, demand.workers),
        "gpus_per_worker": _unless(1, demand.gpus_per_worker),
        "share_percent": _unless(100, demand.share_percent),
        "memory_bytes": _unless(None, demand.memory_bytes),
        "models": "|".join(sorted(demand.models)),
        "exclusive": "true" if demand.exclusive else "",
        "placement": _unless(PlacementMode.AUTO.value, demand.mode.value),
        "min_workers": _unless(None, demand.min_workers),
        "max_workers": _unless(None, demand.max_workers),
        "priority": _unless(0, job.priority),
        "model": job.model,
        "user": job.user,
        "expected_seconds": _unless(None, job.expected_seconds),
        "sensitivity": write_sensitivity(job.sensitivity) if job.sensitivity else "",
        "cpus": _cpus(demand.requests),
        "host_memory_bytes": _unless(0, demand.requests.of_resource(MEMORY)),
        "unseen_cpus": _cpus(job.unseen_requests),
        "saves": "" if job.saves else "false",
        "checkpoint_seconds": "" if job.checkpoint_seconds is None else repr(job.checkpoint_seconds),
    }
    return row | dict.fromkeys(PROFILE, "") | (_profile_fields(job.profile) if job.profile else {})


def _profile_fields(profile: Profile) -> dict[str, str]:
    fields = {
        "persistent_bytes": str(profile.persistent_bytes),
        "ephemeral_bytes": str(profile.ephemeral_bytes),
        "iteration_seconds": _unless(0.0, profile.iteration_seconds),
        "model_bytes": _unless(0, profile.model_bytes),
        "largest_tensor_bytes": _unless(0, profile.largest_tensor_bytes),
    }
    if profile.stages is not None:
        fields |= {column: repr(value) for column, value in zip(STAGES, profile.stages, strict=True)}
    return fields


def _cpus(requests: HostResources) -> str:
    return _unless(0.0, requests.of_resource(CPU) / 1000)


def _unless(default: object, value: object) -> str:
    return "" if value == default else str(value)


def _refuse_unwritable(job: TraceJob) -> None:
    if "/" not in job.key:
        raise InputError(f"the job {job.key!r} has no namespace: name it namespace/name")
    if job.training is not None:
        raise InputError(
            f"the job {job.key} has measured curves, which the format cannot hold: keep its original file"
        )
    for text in (job.key, job.model, job.user, *job.demand.models):
        if text != text.strip() or "\0" in text:
            raise InputError(
                f"the job {job.key!r} has a name with spaces around it, {text!r}: write it without"
            )
    if {name for name, _ in job.demand.requests.amounts} - {CPU, MEMORY} or {
        name for name, _ in job.unseen_requests.amounts
    } - {CPU}:
        raise InputError(
            f"the job {job.key} requests resources other than CPUs and memory, or unseen ones other than CPUs, which the format cannot hold"
        )
    if any("|" in model or not model for model in job.demand.models):
        raise InputError(
            f"the job {job.key!r} names a GPU model that is empty or has a |, which separates models"
        )


def _flag(row: Mapping[str, str], column: str, *, default: bool = False) -> bool:
    text = row.get(column, "")
    if text not in ("", "true", "false"):
        raise ValueError(f"{column} is {text!r}: write true or false")
    return text == "true" if text else default


def _mode(row: Mapping[str, str]) -> PlacementMode:
    text = row.get("placement", "")
    modes = {mode.value: mode for mode in PlacementMode}
    if text and text not in modes:
        raise ValueError(f"placement is {text!r}: write one of {', '.join(modes)}")
    return modes.get(text, PlacementMode.AUTO)


def _profile(row: Mapping[str, str]) -> Profile | None:
    if not any(row.get(column) for column in PROFILE):
        return None
    _require_all(row, SIZES, "both (0 to ignore memory)")
    return Profile(
        _size(row, "persistent_bytes"),
        _size(row, "ephemeral_bytes"),
        _span(row, "iteration_seconds") if row.get("iteration_seconds") else 0.0,
        _size(row, "model_bytes"),
        _size(row, "largest_tensor_bytes"),
        _stages(row),
    )


def _stages(row: Mapping[str, str]) -> StageSeconds | None:
    if not any(row.get(column) for column in STAGES):
        return None
    _require_all(row, STAGES, "all four, or none,")
    return StageSeconds(*(_span(row, column) for column in STAGES))


def _require_all(row: Mapping[str, str], columns: Sequence[str], instead: str) -> None:
    missing = [column for column in columns if not row.get(column)]
    if missing:
        raise ValueError(f"{', '.join(missing)}: empty or missing; write {instead} of {', '.join(columns)}")


def _millis(row: Mapping[str, str], column: str) -> int:
    """Return a number of CPUs in thousandths."""
    if not row.get(column):
        return 0
    cpus = number(row, column, "a number of CPUs")
    if cpus < 0:
        raise ValueError(f"{column} is {row[column]}: write 0 or more")
    return round(cpus * 1000)


def _size(row: Mapping[str, str], column: str) -> int:
    value = whole(row, column, 0)
    if value < 0:
        raise ValueError(f"{column} is {value}: write 0 or more")
    return value


def _span(row: Mapping[str, str], column: str) -> float:
    value = number(row, column, "a number of seconds")
    if value < 0:
        raise ValueError(f"{column} is {value}: write 0 or more")
    return value
