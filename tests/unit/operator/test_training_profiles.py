"""What jobs show of their template outlives them: by GPU model and image, bounded and aged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.api.rfc3339 import format_time
from laneway.api.training_job_status import ExecutionStatus, ProfileStatus, RescaleStatus
from laneway.api.training_profile import ModelProfileStatus, ServiceCountStatus, TrainingProfileStatus
from laneway.operator.cycle import template_evidence, templates
from laneway.operator.cycle.cycle import Cycle, CycleResult
from laneway.operator.cycle.template_evidence import Evidence, is_news, learnt
from laneway.operator.cycle.templates import known_template, to_node
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.lifecycle import transitions
from laneway.operator.pacing import (
    END_COUNTS_SECONDS,
    END_SETTLED_SECONDS,
    PROFILE_UNUSED_SECONDS,
    PROFILE_WRITTEN_SECONDS,
    PROFILES_PER_NAMESPACE,
    PROFILES_WRITTEN_PER_CYCLE,
)
from laneway.operator.state.cache import ClusterCache
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.profile_record import ProfileRecord, parse_profile
from laneway.scheduling.config.operator_config import OperatorConfig
from laneway.scheduling.model.past_services import bin_of

from tests.unit.operator.builders import (
    GIB,
    NOW,
    JobBuilder,
    a_gpu_node,
    a_job,
    a_node,
    a_pod,
    a_session,
    a_view,
    reconciled_job_of,
    snapshot_of,
)

SMALL = ProfileStatus(
    persistent_bytes=2 * GIB, ephemeral_bytes=4 * GIB, iterations=50, iteration_microseconds=100
)
BIG = ProfileStatus(persistent_bytes=9 * GIB, ephemeral_bytes=GIB, iterations=5, iteration_microseconds=300)


def running(name: str, profile: ProfileStatus | None = SMALL, **ran: Any) -> JobRecord:
    """A job that runs and was measured."""
    return a_job(name).placed("n1").running().ran(profile, **ran).record


def ended(
    name: str, end: float, seconds: int = 60, profile: ProfileStatus | None = SMALL, **ran: Any
) -> JobRecord:
    """A job that succeeded then, after so long."""
    done = (
        a_job(name).placed("n1").running().ran(profile, **ran).after(transitions.succeeded, "done", end, end)
    )
    return done.status(executed_milliseconds=seconds * 1000).record


TEMPLATE = a_job().record.desired.template_hash  # type: ignore[union-attr]


def stored(status: TrainingProfileStatus, name: str = TEMPLATE, namespace: str = "ns") -> ProfileRecord:
    """A TrainingProfile as the API server returns it."""
    metadata = {"namespace": namespace, "name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
    return parse_profile({"metadata": metadata, "status": status.to_json()})


def used(at: float, profile: ProfileStatus | None = SMALL, model: str = "A100") -> TrainingProfileStatus:
    """The profile of a template that was used then for the last time."""
    entry = ModelProfileStatus(model=model, last_started=format_time(at), profile=profile)
    return TrainingProfileStatus(models=(entry,))


class Cluster:
    """Cycles of operators, one after another, and the TrainingProfiles that they write."""

    def __init__(self, *profiles: ProfileRecord) -> None:
        self.profiles = {each.key: each for each in profiles}
        self.writes = 0

    def cycle(self, jobs: Iterable[JobRecord], now: float = NOW) -> CycleResult:
        """Have a new operator decide, and its profiles written."""
        view = a_view(
            jobs, gpu_nodes=[a_gpu_node("n1")], nodes=[a_node("n1")], profiles=self.profiles.values()
        )
        result = Cycle(OperatorConfig()).run(view, WriteHistory({}, {}), now)
        assert result.problem == ""
        for write in result.profiles:
            self.writes += 1
            self.profiles[write.key] = stored(write.status, write.name, write.namespace)
        for profile in result.surplus_profiles:
            self.profiles.pop(profile.key, None)
        return result

    @property
    def entry(self) -> ModelProfileStatus:
        """The only entry of the only profile."""
        (profile,) = self.profiles.values()
        (entry,) = profile.status.models
        return entry


def test_a_profile_outlives_its_job_and_the_operator() -> None:
    cluster = Cluster()
    cluster.cycle([running("first")])
    assert cluster.entry.profile == SMALL
    assert cluster.entry.image_ids == ("sha256:1",)
    waiting = a_job("second").visited().record
    view = a_view([waiting], gpu_nodes=[a_gpu_node("n1")], profiles=cluster.profiles.values())
    (planned,) = snapshot_of(view).jobs
    assert planned.profile is not None
    assert (planned.profile.persistent_bytes, planned.profile.ephemeral_bytes) == (2 * GIB, 4 * GIB)


def test_a_tag_that_moved_begins_a_new_profile() -> None:
    cluster = Cluster()
    old = running("old", BIG, image_id="sha256:old", at=NOW - 50)
    cluster.cycle([old])
    new = running("new", SMALL, image_id="sha256:new", at=NOW - 20)
    later = NOW + PROFILE_WRITTEN_SECONDS
    cluster.cycle([old, new], later)
    assert (cluster.entry.image_ids, cluster.entry.profile) == (("sha256:new",), SMALL), "it is not merged"
    cluster.cycle([old], later + PROFILE_WRITTEN_SECONDS)
    assert cluster.entry.image_ids == ("sha256:new",), "who started before it moved does not bring it back"


def test_the_runs_of_another_image_do_not_count_either() -> None:
    cluster = Cluster()
    cluster.cycle([ended("old", NOW - 5, 7200, image_id="sha256:old", at=NOW - 50)])
    assert (cluster.entry.completed_jobs, cluster.entry.mean_run_milliseconds) == (1, 7_200_000)
    later = NOW + PROFILE_WRITTEN_SECONDS
    cluster.cycle([ended("new", NOW + 1, 60, image_id="sha256:new", at=NOW - 20)], later)
    assert (cluster.entry.completed_jobs, cluster.entry.mean_run_milliseconds) == (1, 60_000)


def test_an_image_that_the_kubelet_has_not_named_yet_replaces_nothing() -> None:
    known = learnt(None, [shown("a", profile=BIG, images=("sha256:1",))], NOW)
    after = learnt(known, [shown("b", started=NOW, images=())], NOW)
    assert after is not None
    (entry,) = after.models
    assert entry.image_ids == ("sha256:1",)
    assert entry.profile is not None
    assert entry.profile.persistent_bytes == 9 * GIB


def test_a_job_is_planned_by_the_models_that_it_accepts() -> None:
    status = TrainingProfileStatus(
        models=(*used(NOW, SMALL, "A100").models, *used(NOW, BIG, "H100 80GB").models)
    )
    both = SMALL.model_copy(update={"persistent_bytes": 9 * GIB})
    for models, want in (((), both), (("A100",), SMALL), (("H100*",), BIG), (("B200",), None)):
        assert known_template(status, models).profile == want


def test_an_end_is_counted_once_by_whichever_operator() -> None:
    cluster = Cluster()
    jobs = [ended("a", NOW, 100), ended("b", NOW, 200), a_job("waits").visited().record]
    cluster.cycle(jobs, NOW)
    assert cluster.entry.completed_jobs == 0, "others may have ended before, whose statuses are not there yet"
    for after in (END_SETTLED_SECONDS + PROFILE_WRITTEN_SECONDS, 60, END_COUNTS_SECONDS + 1):
        result = cluster.cycle(jobs, NOW + after)
        assert (cluster.entry.completed_jobs, cluster.entry.measured_jobs) == (2, 2)
        assert cluster.entry.mean_run_milliseconds == 150_000
        assert result.profiles == () or after < 60
    (profile,) = cluster.profiles.values()
    assert known_template(profile.status, ()).expected_seconds == 150


def test_a_job_that_is_deleted_as_soon_as_it_ends_counts() -> None:
    job = ended("a", NOW, 100)
    view, cycle = a_view([job], gpu_nodes=[a_gpu_node("n1")]), Cycle(OperatorConfig())
    cycle.run(view, WriteHistory({}, {}), NOW)
    view.note_job(job, None)
    for each in (cycle, Cycle(OperatorConfig())):
        (write,) = each.run(view, WriteHistory({}, {}), NOW + END_SETTLED_SECONDS).profiles
        (entry,) = write.status.models
        assert entry.completed_jobs == 1


def test_a_job_that_was_not_measured_counts_by_its_run_time() -> None:
    cluster = Cluster()
    cluster.cycle([ended("a", NOW - 5, 100, profile=None)])
    assert (cluster.entry.profile, cluster.entry.measured_jobs, cluster.entry.completed_jobs) == (None, 0, 1)


def test_a_job_that_ended_long_ago_is_not_looked_at() -> None:
    cluster = Cluster()
    assert cluster.cycle([ended("a", NOW - END_COUNTS_SECONDS)]).profiles == ()


def test_it_is_not_written_at_every_report() -> None:
    cluster = Cluster()
    for number in range(1, 100):
        jitter = {"iterations": 50 + number, "iteration_microseconds": 100 + number % 9, "turns": number}
        grown = {"ephemeral_bytes": 4 * GIB + number * 1000}
        profile = SMALL.model_copy(update={**jitter, **grown})
        cluster.cycle([running("a", profile)], NOW + number * PROFILE_WRITTEN_SECONDS)
    assert cluster.writes == 1


def test_growth_is_written_but_not_at_once_again() -> None:
    cluster = Cluster()
    cluster.cycle([running("a", SMALL)])
    grown = SMALL.model_copy(update={"ephemeral_bytes": 6 * GIB})
    result = cluster.cycle([running("a", grown)], NOW + 1)
    assert result.profiles == ()
    assert result.due_seconds <= NOW + PROFILE_WRITTEN_SECONDS
    cluster.cycle([running("a", grown)], NOW + PROFILE_WRITTEN_SECONDS)
    assert cluster.entry.profile is not None
    assert cluster.entry.profile.ephemeral_bytes == 6 * GIB


def of_setting(number: int) -> JobBuilder:
    """A job of a template of its own."""
    trainer = {"name": "trainer", "image": "i", "env": [{"name": "SETTING", "value": str(number)}]}
    return a_job(f"j{number}").spec(template={"spec": {"containers": [trainer]}})


def test_a_namespace_keeps_a_bounded_number_and_does_not_write_in_circles() -> None:
    most, more = 20, 35
    cluster = Cluster(stored(used(NOW, SMALL), namespace="other"))
    jobs = [
        of_setting(number).placed("n1").running().ran(SMALL, at=NOW - 1000 + number).record
        for number in range(more)
    ]
    with pytest.MonkeyPatch.context() as patch:
        for module in ("templates", "cycle"):
            patch.setattr(f"laneway.operator.cycle.{module}.PROFILES_PER_NAMESPACE", most)
        for _ in range(5):
            cluster.cycle(jobs)
            assert len(cluster.profiles) <= most + 1 + PROFILES_WRITTEN_PER_CYCLE
        writes = cluster.writes
        cluster.cycle(jobs)
        assert cluster.writes == writes
    assert len(cluster.profiles) == most + 1, "that of the other namespace stays"
    kept = {f"ns/{job.desired.template_hash}" for job in jobs[-most:] if job.desired is not None}
    assert kept <= cluster.profiles.keys(), "those that were used last"


def test_profiles_of_jobs_that_wait_or_run_go_last() -> None:
    waiting = a_job().visited().record
    assert waiting.desired is not None
    many = [stored(used(NOW - number), f"{number:016x}") for number in range(PROFILES_PER_NAMESPACE)]
    mine = stored(used(NOW - 10_000))
    cluster = Cluster(*many, mine)
    (gone,) = cluster.cycle([waiting]).surplus_profiles
    assert gone.name == f"{PROFILES_PER_NAMESPACE - 1:016x}"
    (gone,) = Cluster(*many, mine).cycle([]).surplus_profiles
    assert gone.name == TEMPLATE


def test_an_unused_profile_is_deleted_after_a_while() -> None:
    old = stored(used(NOW - PROFILE_UNUSED_SECONDS - 1))
    for jobs, want in (([], (old,)), ([a_job().visited().record], ()), ([running("a")], ())):
        view = a_view(jobs, gpu_nodes=[a_gpu_node("n1")], profiles=[old])
        cycle = Cycle(OperatorConfig())
        cycle.run(view, WriteHistory({}, {}), NOW)
        assert cycle.unused_profiles(view, NOW) == want
    fresh = a_view(profiles=[stored(used(NOW - PROFILE_UNUSED_SECONDS))])
    assert Cycle(OperatorConfig()).unused_profiles(fresh, NOW) == ()


def test_what_an_attempt_ran_is_in_its_jobs_status() -> None:
    job = a_job().placed("n1").running().record
    pod = a_pod(job).running().record
    assert pod.image_id == "sha256:1"
    sessions = {0: [a_session(pod, profiled=True, persistentBytes=5, ephemeralBytes=6)]}
    measured = a_view(gpu_nodes=[a_gpu_node("n1", sessions=sessions)])
    execution = reconciled_job_of(job, pod, view=measured).job.status.execution
    assert execution == ExecutionStatus(
        attempt=1,
        started_at=format_time(NOW - 10),
        template_hash=TEMPLATE,
        gpu_models=("A100",),
        imageIDs=("sha256:1",),
        profiled=True,
    )
    assert reconciled_job_of(job, pod).job.status.execution is None, "no write for its sake"
    done = reconciled_job_of(job, a_pod(job).ended().record).job.status.execution
    assert done == execution.model_copy(update={"profiled": False})


def test_an_attempt_that_was_not_measured_says_nothing_by_the_profile_of_the_one_before() -> None:
    job = a_job().placed("n1").running().ran(BIG, model="H100").record
    again = job.with_status(transitions.placed(job.status, (), NOW)).with_status(
        job.status.model_copy(update={"attempt": 2})
    )
    pod = replace(a_pod(again).ended().record, image_id="sha256:2")
    after = reconciled_job_of(again, pod).job
    assert after.status.profile == BIG
    assert after.status.execution is not None
    assert (after.status.execution.attempt, after.status.execution.profiled) == (2, False)
    evidence = template_evidence.evidence_of(after)
    assert evidence is None or evidence.profile is None


def test_a_changed_template_gets_nothing_from_what_ran_before() -> None:
    ran = running("a")
    spec = {"template": {"spec": {"containers": [{"name": "trainer", "image": "other"}]}}}
    changed = (
        a_job("a")
        .spec(**spec)
        .placed("n1")
        .running()
        .status(profile=ran.status.profile, execution=ran.status.execution)
    )
    cluster = Cluster()
    cluster.cycle([changed.record])
    assert cluster.profiles.keys() == {f"ns/{TEMPLATE}"}


def shown(
    name: str,
    started: float = NOW - 100,
    profile: ProfileStatus | None = SMALL,
    models: tuple[str, ...] = ("A100",),
    images: tuple[str, ...] = ("sha256:1",),
    ended_at: float | None = None,
    fails: bool = False,
) -> Evidence:
    """What a job has shown."""
    execution = ExecutionStatus(
        attempt=1,
        started_at=format_time(started),
        template_hash=TEMPLATE,
        gpu_models=models,
        imageIDs=images,
        profiled=profile is not None,
    )
    ran = None if ended_at is None or fails else ended_at - started
    service = 0.0 if ended_at is None else float(ended_at - started)
    return Evidence(f"ns/{TEMPLATE}", name, execution, profile, ended_at, ran, service)


figures = st.builds(
    ProfileStatus,
    persistent_bytes=st.integers(0, 80 * GIB),
    ephemeral_bytes=st.integers(0, 80 * GIB),
    iterations=st.integers(0, 1000),
    iteration_microseconds=st.integers(0, 10**6),
)
jobs_shown = st.lists(
    st.builds(
        shown,
        name=st.sampled_from("ij"),
        started=st.integers(0, 900).map(lambda seconds: NOW - 1000 + seconds),
        profile=st.none() | figures,
        models=st.sampled_from([("A100",), ("H100",), ("A100", "H100"), ()]),
        images=st.sampled_from([(), ("sha256:1",), ("sha256:2",)]),
        ended_at=st.none() | st.integers(-90, 0).map(lambda seconds: NOW + seconds),
        fails=st.booleans(),
    ),
    max_size=8,
)


@given(jobs_shown, jobs_shown)
def test_learning_twice_from_the_same_jobs_changes_nothing(
    first: list[Evidence], more: list[Evidence]
) -> None:
    before = learnt(None, first, NOW)
    after = learnt(before, more, NOW)
    again = learnt(after, more, NOW)
    assert again == after
    if after is not None:
        assert not is_news(after, after)


@given(jobs_shown)
def test_what_is_kept_comes_from_one_image_and_covers_its_jobs(evidence: list[Evidence]) -> None:
    after = learnt(None, evidence, NOW + END_SETTLED_SECONDS)
    ends = {each.ended_seconds for each in evidence if each.execution.gpu_models}
    if after is not None and ends - {None}:
        counted = sum(each.completed_jobs + each.stopped_jobs for each in after.services)
        assert counted == sum(each.service_gpu_seconds > 0 for each in evidence)
    for entry in () if after is None else after.models:
        there = [each for each in evidence if entry.model in each.execution.gpu_models and each.has_figures]
        named = [each for each in there if each.execution.image_ids]
        if named:
            newest = max(each.started_seconds for each in named)
            assert entry.image_ids in {
                each.execution.image_ids for each in named if each.started_seconds == newest
            }
        mine = [each for each in there if each.execution.image_ids in ((), entry.image_ids)]
        assert entry.completed_jobs == sum(each.run_seconds is not None for each in mine)
        needs = [each.profile.persistent_bytes for each in mine if each.profile is not None]
        assert (None if entry.profile is None else entry.profile.persistent_bytes) == max(needs, default=None)


def test_the_models_of_a_profile_are_bounded() -> None:
    evidence = [shown("i", started=NOW - number, models=(f"model-{number}",)) for number in range(99)]
    after = learnt(None, evidence, NOW)
    assert after is not None
    assert {each.model for each in after.models} == {f"model-{number}" for number in range(16)}
    assert learnt(after, evidence, NOW) == after


def rescaled(
    name: str, milliseconds: int, since: float, workers: int = 4, *, trained: bool = True
) -> JobRecord:
    """An elastic job of 1 to 4 workers that runs after a rescale."""
    rescale = RescaleStatus(
        from_workers=2,
        to_workers=workers,
        attempt=0,
        since=format_time(since),
        cost_milliseconds=milliseconds,
        trained=trained,
    )
    job = a_job(name).spec(workers=2, minWorkers=1, maxWorkers=4).placed(*["n1"] * workers).running()
    return job.ran(SMALL).status(rescale=rescale).record


def rescale_seconds(cluster: Cluster, *jobs: JobRecord) -> float | None:
    view = a_view(jobs, gpu_nodes=[a_gpu_node("n1", gpus=8)], profiles=cluster.profiles.values())
    return snapshot_of(view).jobs[0].rescale_seconds


def test_what_a_rescale_costs_is_known_of_the_template_with_any_number_of_workers() -> None:
    cluster, fresh = Cluster(), a_job("fresh").spec(workers=3, minWorkers=1, maxWorkers=4).visited().record
    assert rescale_seconds(cluster, fresh) is None
    cluster.cycle([rescaled("half", 9_000, NOW - 200, trained=False)])
    assert rescale_seconds(cluster, fresh) is None, "it has not trained yet"
    cluster.cycle([rescaled("a", 40_000, NOW - 100)])
    assert rescale_seconds(cluster, fresh) == 40.0
    assert rescale_seconds(cluster, rescaled("own", 7_000, NOW)) == 7.0
    other_range = a_job("other").spec(workers=3, minWorkers=2, maxWorkers=4).visited().record
    assert rescale_seconds(cluster, other_range) is None
    cluster.cycle([rescaled("b", 60_000, NOW - 50), rescaled("late", 10_000, NOW - 100)], NOW + 60)
    assert rescale_seconds(cluster, fresh) == 50.0, "each newer one counts half, and once"


def test_jobs_that_run_learn_at_once_what_a_rescale_costs() -> None:
    book = templates.TemplateBook()
    fresh = a_job("fresh").spec(workers=2, minWorkers=1, maxWorkers=4).visited().record
    book.note(fresh.uid, fresh, NOW)
    book.note("uid-a", rescaled("a", 40_000, NOW - 100), NOW)
    assert fresh.uid in book.refresh({}, (), NOW)
    assert book.of(fresh).rescale_seconds == 40.0
    book.note("uid-a", None, NOW)
    book.note(fresh.uid, None, NOW)
    book.refresh({}, (), NOW)
    assert not any((book._evidence, book._shows, book._jobs, book._templates))


def test_a_book_forgets_jobs_that_are_gone_or_ended_long_ago() -> None:
    book = templates.TemplateBook()
    for number in range(50):
        book.note(f"uid-j{number}", replace(ended("j", NOW), uid=f"uid-j{number}"), NOW)
        book.note(f"uid-r{number}", replace(running("r"), uid=f"uid-r{number}"), NOW)
    book.refresh({}, (), NOW)
    for number in range(50):
        book.note(f"uid-r{number}", None, NOW)
    book.refresh({}, (), NOW + END_COUNTS_SECONDS)
    left = (book._evidence, book._shows, book._jobs, book._templates, book._known, book._unwritten)
    assert not any(left)


def test_a_profile_that_somebody_edited_wrongly_is_deleted_and_made_again() -> None:
    metadata: dict[str, Any] = {"namespace": "ns", "name": TEMPLATE, "uid": "u"}
    foreign = {"model": "X", "lastStarted": "2026-01-01T00:00:00z"}  # valid for the API server
    cache, cycle = ClusterCache(lambda: 0.0), Cycle(OperatorConfig())
    view = cache.state(1e9)
    view.note_job(None, running("a"))
    view.note_gpu_node(None, a_gpu_node("n1"))
    view.note_node(None, a_node("n1"))
    cycle.run(view, WriteHistory({}, {}), NOW)
    cache.profiles.observe(
        {"metadata": {**metadata, "resourceVersion": "1"}, "status": {"models": [foreign]}}
    )
    result = cycle.run(view, WriteHistory({}, {}), NOW)
    assert not result.profiles, "an apply would keep what somebody else wrote"
    assert [each.name for each in result.surplus_profiles] == [TEMPLATE]
    cache.profiles.forget(metadata)
    (write,) = cycle.run(view, WriteHistory({}, {}), NOW).profiles
    assert write.before is None


def test_times_that_no_node_would_take_are_bounded() -> None:
    edited = ProfileStatus(persistent_bytes=1, ephemeral_bytes=1, iteration_microseconds=2**53)
    assert to_node(edited).iteration_seconds == 1e9


def services_of(cluster: Cluster) -> list[tuple[int, int, int]]:
    (profile,) = cluster.profiles.values()
    return [(each.bin, each.completed_jobs, each.stopped_jobs) for each in profile.status.services]


def served(name: str, gpu_seconds: int) -> JobBuilder:
    return (
        a_job(name)
        .placed("n1")
        .running()
        .ran(None)
        .status(attained_service_gpu_milliseconds=1000 * gpu_seconds)
    )


def test_the_services_of_ended_jobs_outlive_them_and_each_counts_once() -> None:
    cluster = Cluster()
    done = served("done", 1024).after(transitions.succeeded, "done", NOW - 5, NOW - 5)
    broken = served("broken", 2048).after(transitions.failed, "OOM", "no memory", NOW - 4, NOW - 4)
    for later in (0, 20, 40):
        cluster.cycle([done.record, broken.record, served("runs", 4096).record], NOW + later)
        services = services_of(cluster)
        assert [(completed, stopped) for _, completed, stopped in services] == [(1, 0), (0, 1)]
    assert cluster.entry.profile is None
    assert cluster.entry.completed_jobs == 1


def test_a_job_that_is_deleted_before_its_end_counts_as_stopped() -> None:
    job = served("runs", 1024).record
    view, cycle = a_view([job], gpu_nodes=[a_gpu_node("n1")]), Cycle(OperatorConfig())
    cycle.run(view, WriteHistory({}, {}), NOW)
    view.note_job(job, None)
    cycle.run(view, WriteHistory({}, {}), NOW)
    view.note_pod(None, a_pod(job).running().record)  # something of it changes again
    later = NOW + END_SETTLED_SECONDS
    (write,) = cycle.run(view, WriteHistory({}, {}), later).profiles
    assert [(each.completed_jobs, each.stopped_jobs) for each in write.status.services] == [(0, 1)]
    assert Cycle(OperatorConfig()).run(view, WriteHistory({}, {}), later).profiles == (), "it counts once"
    assert not cycle._sync.templates._evidence or cycle.run(
        view, WriteHistory({}, {}), NOW + END_COUNTS_SECONDS
    )
    assert not cycle._sync.templates._evidence
    assert not cycle._sync.templates._deleted


def test_templates_that_only_fail_displace_none_with_figures() -> None:
    measured = [stored(used(NOW - 5000 - number), f"t{number}") for number in range(PROFILES_PER_NAMESPACE)]
    cluster = Cluster(*measured)
    broken = served("broken", 2048).after(transitions.failed, "OOM", "no memory", NOW - 4, NOW - 4)
    cluster.cycle([broken.record])
    assert f"ns/{TEMPLATE}" not in cluster.profiles
    assert len(cluster.profiles) == PROFILES_PER_NAMESPACE


def test_an_image_that_fails_at_once_replaces_no_figures() -> None:
    before = learnt(None, [shown("i")], NOW)
    broken = shown("j", started=NOW - 50, profile=None, images=("sha256:2",), ended_at=NOW - 40, fails=True)
    after = learnt(before, [broken], NOW)
    assert before is not None
    assert after is not None
    assert after.models == before.models
    assert [(each.completed_jobs, each.stopped_jobs) for each in after.services] == [(0, 1)]


def test_the_order_learns_from_the_profiles() -> None:
    """Of two waiting jobs, the one that is near the end of what most jobs need goes first, though it has had more."""
    bins = range(bin_of(100), bin_of(3000) + 1)
    services = tuple(ServiceCountStatus(bin=number, completed_jobs=5) for number in bins)
    profile = stored(used(NOW - 50).model_copy(update={"services": services}))
    config = OperatorConfig.model_validate(
        {"scheduling": {"order": {"policy": "tiresias-gittins", "options": {"quantumGpuSeconds": 400}}}}
    )
    jobs = [
        a_job(name).visited().status(attained_service_gpu_milliseconds=service * 1000).record
        for name, service in (("early", 100), ("near", 2950))
    ]
    for profiles, first in (([profile], "ns/near"), ([], "ns/early")):
        view = a_view(jobs, gpu_nodes=[a_gpu_node("n1", gpus=0)], nodes=[a_node("n1")], profiles=profiles)
        cycle = Cycle(config)
        cycle.run(view, WriteHistory({}, {}), NOW)
        assert next(iter(cycle._sync.scheduler.plan(NOW).order)) == first
