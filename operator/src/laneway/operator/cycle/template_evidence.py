"""What jobs show of their template, and what the template's TrainingProfile becomes by it.

``learnt`` is a function of the stored profile and of the jobs, and may be repeated: a maximum stays the same, and a job's end is
counted once, because the profile says up to when ends are counted. Figures of another image replace those of the image before;
they are never mixed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from laneway.api.conditions import is_true
from laneway.api.job_conditions import ConditionType
from laneway.api.rfc3339 import format_time, parse_time
from laneway.api.training_job_status import ExecutionStatus, ProfileStatus
from laneway.api.training_profile import ModelProfileStatus, ServiceCountStatus, TrainingProfileStatus
from laneway.operator.lifecycle import accounting
from laneway.operator.lifecycle.cpus import points_of, with_points
from laneway.operator.pacing import END_SETTLED_SECONDS
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.worker_pod import trainer_of
from laneway.scheduling.model.cpu_points import CPUPoints, merged
from laneway.scheduling.model.past_services import ServiceCount, ServiceLog

_MODELS = 16
"""GPU models that a profile keeps, those used last. A cluster has a few."""

_GROWTH_RATIO = 0.01
_TIME_RATIO = 0.1
_USED_SECONDS = 24 * 3600.0
"""A profile is written again after memory has grown by this part, a time differs by this part of the iteration, or its last use
is later by this."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one job has shown."""

    template: str
    """``namespace/hash``."""

    image: str
    execution: ExecutionStatus
    profile: ProfileStatus | None
    """None: it was not measured."""

    ended_seconds: float | None = None
    """When the operator saw its end; None: it has not ended."""

    run_seconds: float | None = None
    """How long it ran; None: it has not succeeded."""

    service_gpu_seconds: float = 0.0
    """The service that it attained until its end; 0: it has not ended, or never ran."""

    rescale_milliseconds: int | None = None
    """What its last rescale cost, up to the first turn; None: it was not rescaled, or that is not measured."""

    rescaled_seconds: float = 0.0
    """When that rescale began."""

    @property
    def has_figures(self) -> bool:
        """Whether it was measured or has succeeded. A job that did neither tells its service only."""
        return self.profile is not None or self.run_seconds is not None

    @property
    def started_seconds(self) -> float:
        """When the attempt started."""
        return parse_time(self.execution.started_at)


def evidence_of(job: JobRecord, deleted_seconds: float | None = None) -> Evidence | None:
    """Return what a job has shown of the template that it ran; None: nothing yet.

    Args:
        job: it runs, has ended, or was deleted.
        deleted_seconds: when it was deleted before its end; None: it was not.
    """
    status, execution = job.status, job.status.execution
    if job.desired is None or execution is None or not execution.template_hash:
        return None
    completed = is_true(status.conditions, ConditionType.COMPLETE)
    profile = status.profile if execution.profiled else None
    ended_seconds = job.ended_seconds if deleted_seconds is None else deleted_seconds
    service = 0.0
    if ended_seconds is not None:
        service = accounting.attained_gpu_seconds(accounting.counted(status, ended_seconds))
    if profile is None and not completed and not service:
        return None
    same = job.template_hash == execution.template_hash
    trainer = trainer_of(job.desired.spec.template["spec"]["containers"])
    return Evidence(
        template=f"{job.namespace}/{execution.template_hash}",
        image=str(trainer.get("image") or "") if same else "",
        execution=execution,
        profile=profile,
        ended_seconds=ended_seconds,
        run_seconds=accounting.executed_seconds(status) if completed else None,
        service_gpu_seconds=service,
    )


def rescale_evidence_of(job: JobRecord) -> Evidence | None:
    """Return what an elastic job has shown of the cost of a rescale, for its template with the fewest workers; None: nothing yet."""
    rescale, execution = job.status.rescale, job.status.execution
    if job.desired is None or not job.desired.fewest_template_hash or execution is None:
        return None
    if rescale is None or not rescale.trained or rescale.cost_milliseconds is None:
        return None
    trainer = trainer_of(job.desired.spec.template["spec"]["containers"])
    return Evidence(
        template=f"{job.namespace}/{job.desired.fewest_template_hash}",
        image=str(trainer.get("image") or ""),
        execution=execution,
        profile=None,
        ended_seconds=job.ended_seconds,
        rescale_milliseconds=rescale.cost_milliseconds,
        rescaled_seconds=parse_time(rescale.since),
    )


def learnt(
    before: TrainingProfileStatus | None, evidence: Sequence[Evidence], now_seconds: float
) -> TrainingProfileStatus | None:
    """Return a template's profile with what its jobs have shown; None: nothing is known.

    Args:
        before: as it is stored; None: there is none.
        evidence: of the template's jobs, in any order that does not change.
        now_seconds: Unix time.
    """
    before = before or TrainingProfileStatus()
    counted_until = None if before.counted_until is None else parse_time(before.counted_until)
    ends = [each.ended_seconds for each in evidence if each.ended_seconds is not None]
    settled = {end for end in ends if end + END_SETTLED_SECONDS <= now_seconds}
    new_ends = {end for end in settled if counted_until is None or end > counted_until}
    entries = {each.model: each for each in before.models}
    for model in {model for each in evidence for model in each.execution.gpu_models}:
        there = [each for each in evidence if model in each.execution.gpu_models]
        telling = [each for each in there if each.has_figures]
        if telling:
            entries[model] = _learnt_of_model(model, entries.get(model), telling, new_ends)
        elif model not in entries:  # an image that fails before its first measurement replaces no figures
            newest = max(there, key=lambda each: each.started_seconds)
            entries[model] = ModelProfileStatus(model=model, last_started=newest.execution.started_at)
    if not entries:
        return None
    by_use = sorted(entries.values(), key=lambda each: (_last_started_seconds(each), each.model))
    return before.model_copy(
        update={
            "image": next((each.image for each in evidence if each.image), before.image),
            "models": tuple(sorted(by_use[-_MODELS:], key=lambda each: each.model)),
            "services": _with_services(before.services, evidence, new_ends),
            **_rescale_cost(before, evidence),
            "counted_until": format_time(max(new_ends)) if new_ends else before.counted_until,
        }
    )


def _rescale_cost(before: TrainingProfileStatus, evidence: Sequence[Evidence]) -> dict[str, object]:
    """Return the fields of the cost of rescales: each newer one counts half, so that one slow start is soon forgotten."""
    milliseconds = before.rescale_milliseconds
    at_seconds = -math.inf if before.rescaled_at is None else parse_time(before.rescaled_at)
    for each in sorted(evidence, key=lambda each: each.rescaled_seconds):
        cost = each.rescale_milliseconds
        if cost is not None and each.rescaled_seconds > at_seconds:
            milliseconds = cost if milliseconds is None else round((milliseconds + cost) / 2)
            at_seconds = each.rescaled_seconds
    at = before.rescaled_at if math.isinf(at_seconds) else format_time(at_seconds)
    return {"rescale_milliseconds": milliseconds, "rescaled_at": at}


def _with_services(
    before: tuple[ServiceCountStatus, ...], evidence: Sequence[Evidence], new_ends: set[float]
) -> tuple[ServiceCountStatus, ...]:
    log = ServiceLog()
    log.add(counts_of(before))
    for each in evidence:
        if each.ended_seconds in new_ends and each.service_gpu_seconds:
            log.note(each.service_gpu_seconds, completed=each.run_seconds is not None)
    return tuple(
        ServiceCountStatus(bin=each.bin, completed_jobs=each.completed, stopped_jobs=each.stopped)
        for each in log.past().counts
    )


def counts_of(services: Iterable[ServiceCountStatus]) -> Iterator[ServiceCount]:
    """Yield stored services as the scheduler takes them."""
    for each in services:
        yield ServiceCount(each.bin, each.completed_jobs, each.stopped_jobs)


def _learnt_of_model(
    model: str, before: ModelProfileStatus | None, evidence: Sequence[Evidence], new_ends: set[float]
) -> ModelProfileStatus:
    """Take in what ran with the image of the newest attempt. An image that is not known counts as that one."""
    runs = [(each.started_seconds, each.execution.image_ids) for each in evidence]
    if before is not None:
        runs.insert(0, (_last_started_seconds(before), before.image_ids))
    images = max((run for run in runs if run[1]), key=lambda run: run[0], default=(0.0, ()))[1]
    matching = [each for each in evidence if each.execution.image_ids in ((), images)]
    if before is not None and before.image_ids in ((), images):
        entry = before.model_copy(update={"image_ids": images})
    else:
        started = matching[0].execution.started_at
        entry = ModelProfileStatus(model=model, imageIDs=images, last_started=started)
    for each in matching:
        entry = _with(entry, each, is_new_end=each.ended_seconds in new_ends)
    return entry


def _with(entry: ModelProfileStatus, evidence: Evidence, *, is_new_end: bool) -> ModelProfileStatus:
    profile = larger(entry.profile, evidence.profile)
    changes: dict[str, object] = {"profile": profile}
    if evidence.started_seconds > _last_started_seconds(entry):
        changes["last_started"] = evidence.execution.started_at
    if is_new_end and evidence.profile is not None:
        changes["measured_jobs"] = entry.measured_jobs + 1
    if is_new_end and evidence.run_seconds is not None:
        runs, mean = entry.completed_jobs + 1, entry.mean_run_milliseconds
        changes["completed_jobs"] = runs
        changes["mean_run_milliseconds"] = round(mean + (evidence.run_seconds * 1000 - mean) / runs)
    return entry.model_copy(update=changes)


def larger(one: ProfileStatus | None, other: ProfileStatus | None) -> ProfileStatus | None:
    """Return the profile that covers both: of memory the larger, of time the longer measurement; None: nothing was measured."""
    if one is None or other is None:
        return one or other
    shorter, longest = sorted((one, other), key=lambda profile: profile.iterations)
    return with_points(
        longest.model_copy(
            update={
                name: max(getattr(one, name), getattr(other, name))
                for name in ("persistent_bytes", "ephemeral_bytes", "framework_bytes")
            }
        ),
        merged(points_of(shorter), points_of(longest)),
    )


def is_news(before: TrainingProfileStatus | None, after: TrainingProfileStatus) -> bool:
    """Whether a profile has changed so far that it is to be written."""
    if before is None or before.counted_until != after.counted_until:
        return True
    if not _costs_alike(before.rescale_milliseconds, after.rescale_milliseconds):
        return True
    known = {each.model: each for each in before.models}
    return known.keys() != {each.model for each in after.models} or any(
        _model_is_news(known[each.model], each) for each in after.models
    )


def _model_is_news(before: ModelProfileStatus, after: ModelProfileStatus) -> bool:
    if before.image_ids != after.image_ids:
        return True
    if _last_started_seconds(after) > _last_started_seconds(before) + _USED_SECONDS:
        return True
    if before.profile is None or after.profile is None:
        return before.profile != after.profile
    old, new = before.profile, after.profile
    sizes = ("persistent_bytes", "ephemeral_bytes", "framework_bytes", "model_bytes", "largest_tensor_bytes")
    if any(
        abs(getattr(new, name) - getattr(old, name)) > _GROWTH_RATIO * getattr(old, name) for name in sizes
    ):
        return True
    if not _points_alike(points_of(old), points_of(new)):
        return True
    tolerated = _TIME_RATIO * (old.iteration_microseconds + old.data_microseconds)
    times = ("iteration_microseconds", "data_microseconds")
    return any(abs(getattr(new, name) - getattr(old, name)) > tolerated for name in times)


def _costs_alike(old: int | None, new: int | None) -> bool:
    return old == new or (old is not None and new is not None and abs(new - old) <= _TIME_RATIO * old)


def _points_alike(old: CPUPoints, new: CPUPoints) -> bool:
    return old.keys() == new.keys() and all(
        abs(time - old[cpus]) <= _TIME_RATIO * old[cpus] for cpus, time in new.items()
    )


def _last_started_seconds(entry: ModelProfileStatus) -> float:
    return parse_time(entry.last_started)
