"""Template profiles: what is known of a job from other jobs of the same template.

TrainingProfile and the status of each job of the template ─▶ the planner's figures for a waiting job, the annotation
``laneway.dev/profile`` of its pods, from which the node's agent starts, and the TrainingProfile as it is to be.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from laneway.api.model_selector import selects
from laneway.api.rfc3339 import format_time, parse_time
from laneway.api.template_profile import MOST_SECONDS, TemplateProfile
from laneway.api.training_job_status import ProfileStatus
from laneway.api.training_profile import TrainingProfileStatus
from laneway.operator.cycle.model_speeds import ModelSpeedBook
from laneway.operator.cycle.template_evidence import (
    Evidence,
    counts_of,
    evidence_of,
    is_news,
    larger,
    learnt,
    rescale_evidence_of,
)
from laneway.operator.lifecycle.cpus import points_of
from laneway.operator.pacing import (
    END_COUNTS_SECONDS,
    END_SETTLED_SECONDS,
    PROFILE_UNUSED_SECONDS,
    PROFILE_WRITTEN_SECONDS,
    PROFILES_PER_NAMESPACE,
    PROFILES_WRITTEN_PER_CYCLE,
)
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.profile_record import ProfileRecord
from laneway.scheduling.model.gpu_speed import ModelSpeed
from laneway.scheduling.model.past_services import PastServices, ServiceLog
from laneway.scheduling.state.timers import Timers


@dataclass(frozen=True, slots=True)
class KnownTemplate:
    """What the jobs of one template have shown, on the GPU models that a job accepts."""

    profile: ProfileStatus | None = None
    """Of memory the most that one of them needed, of time the longest measurement; None: none was measured."""

    expected_seconds: float | None = None
    """How long one of them runs, on average; None: none has succeeded."""

    expected_on: str = ""
    """On GPUs of this model; empty: on those that the job accepts."""

    speeds: tuple[ModelSpeed, ...] = ()
    """How fast they run by GPU model, those that the job does not accept included."""

    cpu_points: Mapping[str, Mapping[int, int]] = field(default_factory=lambda: MappingProxyType({}))
    """By GPU model: microseconds of an iteration by CPUs of a trainer, in thousandths."""

    rescale_seconds: float | None = None
    """What a rescale costs, with any number of workers; None: none was measured."""


NOTHING_KNOWN = KnownTemplate()


@dataclass(frozen=True, slots=True)
class ProfileWrite:
    """A TrainingProfile as it is to be."""

    namespace: str
    name: str
    before: ProfileRecord | None
    """As the cluster has it; None: it is to be created."""

    status: TrainingProfileStatus

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def known_template(
    status: TrainingProfileStatus | None, models: Collection[str], speeds: tuple[ModelSpeed, ...] = ()
) -> KnownTemplate:
    """Return what is known for a job that accepts these GPU models, patterns included; none: any.

    Run times on several models are converted to the one on which most jobs have completed. Those on models that the job does not accept
    count only if no others are known and speeds are, so that the scheduler can convert them.
    """
    if status is None:
        return KnownTemplate(speeds=speeds) if speeds else NOTHING_KNOWN
    accepted = [each for each in status.models if selects(models, each.model)]
    profile = None
    for each in accepted:
        profile = larger(profile, each.profile)
    points = {each.model: found for each in accepted if (found := points_of(each.profile))}
    per_second = {each.model: each.per_second for each in speeds}
    completed = [each for each in accepted if each.completed_jobs] or [
        each for each in status.models if each.completed_jobs and each.model in per_second
    ]
    if not completed:
        return KnownTemplate(profile, speeds=speeds, cpu_points=points)
    most = max(completed, key=lambda each: (each.completed_jobs, each.model)).model
    runs = sum(each.completed_jobs for each in completed)
    milliseconds = math.fsum(
        each.completed_jobs
        * each.mean_run_milliseconds
        * (per_second[each.model] / per_second[most] if {each.model, most} <= per_second.keys() else 1.0)
        for each in completed
    )
    return KnownTemplate(profile, milliseconds / runs / 1000, most, speeds, points)


def template_of(job: JobRecord) -> str | None:
    """Return the key of a job's template, ``namespace/hash``; None where its spec is wrong."""
    return None if job.desired is None else f"{job.namespace}/{job.template_hash}"


def _templates_of(job: JobRecord | None) -> tuple[str, ...]:
    """Return the keys of the templates of which something is used for a job that has not ended: its own, and for the cost of rescales that
    with the fewest workers."""
    if job is None or job.finished or job.desired is None:
        return ()
    own, fewest = f"{job.namespace}/{job.template_hash}", job.desired.fewest_template_hash
    return (own, f"{job.namespace}/{fewest}") if fewest else (own,)


class _Rank(NamedTuple):
    """How worth keeping a profile is: the larger, the more."""

    in_use: bool
    """Whether jobs that have not ended use it."""

    has_figures: bool
    """Whether a job was measured, rescaled or has completed; else all of them failed, or were deleted."""

    last_used_seconds: float
    key: str


_LAST = _Rank(in_use=False, has_figures=False, last_used_seconds=0.0, key="")


Profiles = Mapping[str, Mapping[str, ProfileRecord]]
"""TrainingProfiles by namespace and name."""


class TemplateBook:
    """What is known of each template, kept up to date as jobs and TrainingProfiles change."""

    def __init__(self) -> None:
        self._known: dict[str, TrainingProfileStatus] = {}
        """By template."""

        self._templates: dict[str, tuple[str, ...]] = {}
        """By the uid of a job that has not ended: those of which something is used for it."""

        self._jobs: defaultdict[str, set[str]] = defaultdict(set)
        """By template: uids of the jobs that have not ended for which something of it is used."""

        self._evidence: defaultdict[str, dict[str, Evidence]] = defaultdict(dict)
        """By template and uid: what jobs have shown that run, or ended not long ago. What a job has shown of rescales has a uid of its own."""

        self._shows: dict[str, str] = {}
        """By uid: the template of which a job has shown something."""

        self._deleted: set[str] = set()
        """Uids of jobs that were deleted before their end, while they still count as evidence."""

        self._services = ServiceLog()
        """Of the jobs in ``_known``."""

        self._unwritten: dict[str, TrainingProfileStatus] = {}
        """By template: profiles that are to be written."""

        self._speeds = ModelSpeedBook()
        self._stale: set[str] = set()
        self._due = Timers()
        """When an end counts, no longer counts, or a profile may be written again."""

    def note(self, uid: str, job: JobRecord | None, now_seconds: float) -> None:
        """Note a job that is new, has changed, is gone (None), or ended and is gone."""
        templates = _templates_of(job)
        for before in self._templates.pop(uid, ()):
            if before not in templates:
                _discard(self._jobs, before, uid)
                if before not in self._jobs:
                    self._speeds.forget(before)
        if templates:
            self._templates[uid] = templates
        for template in templates:
            self._jobs[template].add(uid)
        if uid not in self._deleted:
            self._note_evidence(uid, None if job is None else evidence_of(job), now_seconds)
        rescale = None if job is None else rescale_evidence_of(job)
        self._note_evidence(f"{uid}/rescale", rescale, now_seconds)

    def note_deleted(self, job: JobRecord, now_seconds: float) -> None:
        """Note a job that was deleted before its end: how much service it would have needed is not known, but that it was more."""
        # The time as a profile stores it: else the same end could count twice.
        evidence = evidence_of(job, deleted_seconds=parse_time(format_time(now_seconds)))
        if evidence is not None and evidence.service_gpu_seconds:
            self._note_evidence(job.uid, evidence, now_seconds)
            self._deleted.add(job.uid)

    def past_services(self) -> PastServices:
        """Return the services of ended jobs of all templates."""
        return self._services.past()

    def of(self, job: JobRecord) -> KnownTemplate:
        """Return what is known of a job's template, on the GPU models that it accepts; nothing after its end."""
        template = template_of(job)
        if template is None or job.desired is None or job.finished:
            return NOTHING_KNOWN
        known = known_template(
            self._known.get(template), job.desired.demand.models, self._speeds.of(template)
        )
        fewest = self._known.get(f"{job.namespace}/{job.desired.fewest_template_hash}")
        if fewest is None or fewest.rescale_milliseconds is None:
            return known
        return replace(known, rescale_seconds=fewest.rescale_milliseconds / 1000)

    def refresh(
        self,
        profiles: Profiles,
        changed: Collection[str],
        now_seconds: float,
        models: frozenset[str] = frozenset(),
    ) -> set[str]:
        """Recompute what is known; return the uids of the jobs for whose template the result has changed.

        Args:
            profiles: all TrainingProfiles.
            changed: keys of those that have changed.
            now_seconds: Unix time.
            models: the GPU models of the cluster.
        """
        stale, self._stale = self._stale | set(changed) | self._due.pop_due(now_seconds), set()
        uids: set[str] = set()
        for template in sorted(stale):
            before = _stored(profiles, template)
            known = self._recompute(template, None if before is None else before.status, now_seconds)
            if known == self._known.get(template):
                continue
            uids |= self._jobs.get(template, set())
            self._speeds.note(template, known)
            for status, sign in ((self._known.get(template), -1), (known, 1)):
                if status is not None:
                    self._services.add(counts_of(status.services), sign=sign)
            if known is None:
                del self._known[template]
            else:
                self._known[template] = known
        return uids.union(*(self._jobs.get(template, set()) for template in self._speeds.refresh(models)))

    def due_seconds(self) -> float:
        """Return when something is to be recomputed though nothing changes; infinite: nothing is."""
        return self._due.next_seconds()

    def writes(
        self, profiles: Profiles, busy: Collection[str], now_seconds: float
    ) -> tuple[ProfileWrite, ...]:
        """Return the profiles to be written now.

        Args:
            profiles: all TrainingProfiles.
            busy: keys of those that are being written, or rest after a failure.
            now_seconds: Unix time.
        """
        ready = (key for key in sorted(self._unwritten) if key not in busy)
        return tuple(islice(self._ready(ready, profiles, now_seconds), PROFILES_WRITTEN_PER_CYCLE))

    def surplus(
        self, profiles: Profiles, namespaces: Iterable[str], now_seconds: float
    ) -> tuple[ProfileRecord, ...]:
        """Return the profiles of some namespaces that are to be deleted: those unused for long, the least used beyond a number, and
        those that cannot be read."""
        found: list[ProfileRecord] = []
        for namespace in sorted(namespaces):
            ranked = self._ranked(profiles.get(namespace, {}))
            oldest_seconds = now_seconds - PROFILE_UNUSED_SECONDS
            found += (
                record
                for place, (rank, record) in enumerate(ranked)
                if place >= PROFILES_PER_NAMESPACE
                or (not rank.in_use and rank.last_used_seconds < oldest_seconds)
                or record.problem
            )
        return tuple(found)

    def _note_evidence(self, uid: str, evidence: Evidence | None, now_seconds: float) -> None:
        if evidence is not None and _forgotten_seconds(evidence) <= now_seconds:
            evidence = None
        before = self._shows.pop(uid, None)
        known = None if before is None else self._evidence[before].pop(uid)
        if evidence is not None:
            self._shows[uid] = evidence.template
            self._evidence[evidence.template][uid] = evidence
        if known != evidence and not self._is_covered(before, evidence, now_seconds):
            self._stale |= {each.template for each in (known, evidence) if each is not None}
        if before is not None and not self._evidence[before]:
            del self._evidence[before]

    def _is_covered(self, before: str | None, evidence: Evidence | None, now_seconds: float) -> bool:
        """Whether a running job reports nothing that its template's profile would be written for, like most reports. Then the
        other jobs of the template are not looked at."""
        if evidence is None or evidence.template != before or evidence.ended_seconds is not None:
            return False
        known = self._known.get(before)
        if known is None or before in self._unwritten:
            return False
        after = learnt(known, [evidence], now_seconds)
        return after is not None and not is_news(known, after)

    def _recompute(
        self, template: str, before: TrainingProfileStatus | None, now_seconds: float
    ) -> TrainingProfileStatus | None:
        """Return what is known of a template, and note whether it is to be written, and when it is to be recomputed."""
        there = self._evidence.get(template, {})
        for uid in [uid for uid, each in there.items() if _forgotten_seconds(each) <= now_seconds]:
            del there[uid], self._shows[uid]
            self._deleted.discard(uid)
        if not there:
            self._evidence.pop(template, None)
        shown = [there[uid] for uid in sorted(there)]
        after = learnt(before, shown, now_seconds)
        ends = [each.ended_seconds for each in shown if each.ended_seconds is not None]
        due = [end + wait for end in ends for wait in (END_SETTLED_SECONDS, END_COUNTS_SECONDS)]
        self._unwritten.pop(template, None)
        known = before
        if after is not None and is_news(before, after):
            self._unwritten[template] = known = after
            due.append(_writable_seconds(before))
        self._due.forget(template)
        if later := [at for at in due if at > now_seconds]:
            self._due.put(template, min(later))
        return known

    def _ready(self, keys: Iterable[str], profiles: Profiles, now_seconds: float) -> Iterator[ProfileWrite]:
        """Yield those that may be written: not so soon after the last time, and no new one that would be surplus at once."""
        least: dict[str, _Rank] = {}
        for key in keys:
            after, before = self._unwritten[key], _stored(profiles, key)
            namespace, _, name = key.partition("/")
            if before is None:
                if namespace not in least:
                    ranked = self._ranked(profiles.get(namespace, {}))
                    full = len(ranked) >= PROFILES_PER_NAMESPACE
                    least[namespace] = ranked[PROFILES_PER_NAMESPACE - 1][0] if full else _LAST
                if self._rank(key, after) < least[namespace]:
                    continue
            elif before.problem or _writable_seconds(before.status) > now_seconds:
                continue
            status = after.model_copy(update={"updated_at": format_time(now_seconds)})
            yield ProfileWrite(namespace, name, before, status)

    def _ranked(self, there: Mapping[str, ProfileRecord]) -> list[tuple[_Rank, ProfileRecord]]:
        """Return the profiles of a namespace with their ranks, those to keep first."""
        ranked = ((self._rank(record.key, record.status), record) for record in there.values())
        return sorted(ranked, key=lambda each: each[0], reverse=True)

    def _rank(self, key: str, status: TrainingProfileStatus) -> _Rank:
        has_figures = status.rescale_milliseconds is not None or any(
            each.profile is not None or each.completed_jobs for each in status.models
        )
        last_used_seconds = parse_time(status.last_used) if status.last_used else 0.0
        return _Rank(key in self._jobs, has_figures, last_used_seconds, key)


def _stored(profiles: Profiles, key: str) -> ProfileRecord | None:
    namespace, _, name = key.partition("/")
    return profiles.get(namespace, {}).get(name)


def _writable_seconds(status: TrainingProfileStatus | None) -> float:
    """Return from when on a profile may be written again."""
    if status is None or status.updated_at is None:
        return -math.inf
    return parse_time(status.updated_at) + PROFILE_WRITTEN_SECONDS


def _forgotten_seconds(evidence: Evidence) -> float:
    return math.inf if evidence.ended_seconds is None else evidence.ended_seconds + END_COUNTS_SECONDS


def _discard(members: dict[str, set[str]], key: str, uid: str) -> None:
    members[key].discard(uid)
    if not members[key]:
        del members[key]


def to_node(profile: ProfileStatus) -> TemplateProfile:
    """Return a profile as the node takes it: there the framework's memory is beside the persistent, not in it."""
    return TemplateProfile(
        persistent_bytes=max(0, profile.persistent_bytes - profile.framework_bytes),
        ephemeral_bytes=profile.ephemeral_bytes,
        framework_bytes=profile.framework_bytes,
        iteration_seconds=min(profile.iteration_microseconds / 1e6, MOST_SECONDS),
        iteration_seconds_spread=min(profile.iteration_spread_microseconds / 1e6, MOST_SECONDS),
        data_seconds=min(profile.data_microseconds / 1e6, MOST_SECONDS),
        model_bytes=profile.model_bytes,
        largest_tensor_bytes=profile.largest_tensor_bytes,
    )


def from_node(profile: TemplateProfile) -> ProfileStatus:
    """Return what :func:`to_node` made, as a status has it."""
    return ProfileStatus(
        persistent_bytes=profile.persistent_bytes + profile.framework_bytes,
        ephemeral_bytes=profile.ephemeral_bytes,
        framework_bytes=profile.framework_bytes,
        iteration_microseconds=round(profile.iteration_seconds * 1e6),
        iteration_spread_microseconds=round(profile.iteration_seconds_spread * 1e6),
        data_microseconds=round(profile.data_seconds * 1e6),
        model_bytes=profile.model_bytes,
        largest_tensor_bytes=profile.largest_tensor_bytes,
    )
