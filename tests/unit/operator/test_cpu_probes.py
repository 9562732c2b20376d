"""A job's speed with fewer and more CPUs: what is tried, what is measured, and what is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from laneway.api.training_job_status import CPUPointStatus, ProfileStatus
from laneway.api.training_profile import ModelProfileStatus, TrainingProfileStatus
from laneway.operator.cycle.cpu_probes import CPUProbes
from laneway.operator.cycle.scheduler_jobs import cpu_points, scheduler_job
from laneway.operator.cycle.shared_speeds import Count
from laneway.operator.cycle.template_evidence import Evidence, is_news, larger, learnt
from laneway.operator.cycle.templates import known_template
from laneway.operator.lifecycle.reconciled_job import ReconciledJob
from laneway.operator.pacing import PROBE_LONGEST_SECONDS, PROBE_SECONDS
from laneway.operator.state.records.trainer_cpus import RequestedCPUs
from laneway.scheduling import JobState

from tests.unit.operator.builders import GIB, NOW, JobBuilder, a_job, placement_on

ALONE: frozenset[str] = frozenset()
MODELS = frozenset({"A100"})
ASKS = RequestedCPUs(4000, 4000, 2000, 0)
PROFILE = ProfileStatus(
    persistent_bytes=GIB, ephemeral_bytes=GIB, iterations=100, iteration_microseconds=100_000
)


def asking() -> JobBuilder:
    resources = {"limits": {"cpu": "4"}}
    template = {"spec": {"containers": [{"name": "trainer", "image": "i", "resources": resources}]}}
    return a_job("a").spec(template=template, minimumCPU="2")


JOB = ReconciledJob(asking().placed("n1").running().record, JobState.RUNNING, tuple(placement_on("n1")))


class ProbedJob:
    """One job whose node reports every ten seconds, and which is twice as fast with twice the CPUs, up to eight."""

    def __init__(self, uid: str = JOB.job.uid) -> None:
        self.probes = CPUProbes()
        self.uid, self.at, self.done, self.cpus = uid, NOW, 0.0, 4000

    def report(self, cpus: int | None, sharers: frozenset[str] = ALONE, workers: int = 1) -> None:
        self.at += 10
        self.done += 10 * min(cpus or 0, 8000) / 1000
        self.probes.note(self.uid, Count(self.at, int(self.done), 1, sharers, MODELS), cpus, workers)

    def points(self, workers: int = 1) -> dict[int, int]:
        profile = self.probes.added(self.uid, PROFILE, workers)
        return {each.cpu_millis: each.iteration_microseconds for each in profile.cpu_points}

    def target(
        self, known: dict[int, int] | None = None, most: int = 12_000, asks: RequestedCPUs = ASKS
    ) -> int | None:
        return self.probes.target(JOB, asks, known or {}, most, self.at)


def test_a_job_is_tried_with_its_request_half_of_it_and_all_that_is_idle() -> None:
    probed, tried = ProbedJob(), []
    while (cpus := probed.target()) is not None:
        tried.append(cpus)
        probed.report(cpus)
    assert list(dict.fromkeys(tried)) == [4000, 2000, 12_000, 6928]
    assert probed.points().keys() == {2000, 4000, 6928, 12_000}
    assert probed.points()[12_000] == 125_000
    assert probed.at - NOW < 300


def test_without_permission_nothing_below_the_request_is_tried() -> None:
    probed, tried = ProbedJob(), set()
    asks = replace(ASKS, fewest_millis=4000)
    while (cpus := probed.target(asks=asks)) is not None:
        tried.add(cpus)
        probed.report(cpus)
    assert tried == {4000, 12_000, 6928}


def test_what_the_template_showed_is_not_tried_again() -> None:
    assert ProbedJob().target({4100: 1, 2000: 2, 9000: 1}) is None
    assert ProbedJob().target({4100: 1, 2000: 2, 16_000: 1, 8000: 1}) is None
    assert ProbedJob().target({4100: 1, 2000: 2}, most=4500) is None, "nothing to speak of is idle"


@pytest.mark.parametrize("limit", [None, 6000])
def test_a_job_that_its_limit_does_not_hold_to_its_request_is_not_tried(limit: int | None) -> None:
    assert ProbedJob().target(asks=replace(ASKS, limit_millis=limit)) is None


def test_one_job_at_a_time_is_tried_with_what_is_idle() -> None:
    probed = ProbedJob()
    first = replace(JOB, job=replace(JOB.job, uid="first"))
    known = {4000: 250_000, 2000: 500_000}
    assert probed.probes.target(first, ASKS, known, 12_000, NOW) == 12_000
    assert probed.target(known) == 4000
    probed.probes.drop("first")
    assert probed.target(known) == 12_000


def test_a_job_whose_iterations_do_not_come_is_given_up_in_this_attempt() -> None:
    probed = ProbedJob()
    assert probed.target() == 4000
    probed.at += PROBE_LONGEST_SECONDS
    assert probed.target() is None
    assert probed.target() is None


def test_points_belong_to_a_number_of_workers() -> None:
    """After a rescale each worker may prepare another part of the batch."""
    probed = ProbedJob()
    for _ in range(6):
        probed.report(4000)
    assert probed.points().keys() == {4000}
    assert probed.points(workers=2) == {}, "it is placed with two"
    probed.report(8000, workers=2)
    assert probed.points() == probed.points(workers=2) == {}
    for _ in range(6):
        probed.report(8000, workers=2)
    assert probed.points(workers=2).keys() == {8000}


def test_what_is_counted_before_the_cpus_changed_or_beside_others_says_nothing() -> None:
    probed = ProbedJob()
    for _ in range(int(PROBE_SECONDS / 10) + 1):
        probed.report(4000)
    assert probed.points() == {}, "the first report may be of a time before"
    probed.report(4000)
    assert set(probed.points()) == {4000}
    probed = ProbedJob()
    for _ in range(20):
        probed.report(4000, frozenset({"ns/other"}))
        assert not probed.probes.counts(JOB.job.uid)
    for _ in range(20):
        probed.report(None)
    assert probed.points() == {}


def with_cpus(points: dict[int, int], iterations: int = 100) -> ProfileStatus:
    listed = tuple(
        CPUPointStatus(cpu_millis=cpus, iteration_microseconds=time) for cpus, time in points.items()
    )
    return PROFILE.model_copy(update={"cpu_points": listed, "iterations": iterations})


def test_the_profile_of_a_template_keeps_what_its_jobs_showed_by_gpu_model() -> None:
    builder = asking().placed("n1").running().ran(with_cpus({4000: 250}), at=NOW)
    record = builder.record
    assert record.status.execution is not None
    seen = Evidence("ns/t", "i", record.status.execution, record.status.profile)
    before = TrainingProfileStatus(
        models=(
            ModelProfileStatus(
                model="A100",
                imageIDs=("sha256:1",),
                last_started="1970-01-01T00:00:00Z",
                profile=with_cpus({2000: 500, 3900: 300}, iterations=50),
            ),
            ModelProfileStatus(
                model="T4",
                last_started="1970-01-01T00:00:00Z",
                profile=with_cpus({1000: 9000}, iterations=500),
            ),
        )
    )
    after = learnt(before, [seen], NOW)
    assert after is not None
    assert is_news(before, after)
    known = known_template(after, ())
    assert known.cpu_points == {"A100": {2000: 500, 4000: 250}, "T4": {1000: 9000}}
    plain = builder.ran(PROFILE, at=NOW).record
    assert cpu_points(plain, known) == {2000: 500, 4000: 250}
    reconciled = ReconciledJob(plain, JobState.RUNNING, tuple(placement_on("n1")))
    sensitivity = scheduler_job(reconciled, (), known, NOW).sensitivity
    assert sensitivity is not None
    assert sensitivity.ratio(2000, GIB) == 0.5


def test_a_profile_without_points_is_as_before() -> None:
    assert larger(PROFILE, PROFILE) == PROFILE
    assert scheduler_job(JOB, (), known_template(None, ()), NOW).sensitivity is None
