"""Jobs that ended long ago: they cost little memory and no time, and expire in their turn."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from laneway.operator.cycle.cycle import Cycle, CycleResult
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.lifecycle import transitions
from laneway.operator.pacing import END_COUNTS_SECONDS, EXPIRED_AT_ONCE
from laneway.operator.state.cache import ClusterCache
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.scheduling import JobState
from laneway.scheduling.config.operator_config import OperatorConfig

from tests.unit.operator.builders import NOW, a_gpu_node, a_job, a_pod, samples_of, scheduler_input

DAY = 24 * 3600.0


class Cluster:
    """A cache with ended jobs, and a cycle that sees it."""

    def __init__(self, *names: str, **spec: Any) -> None:
        self.now = NOW
        self.version = 0
        self.cache = ClusterCache(lambda: self.now)
        self.cycle = Cycle(OperatorConfig())
        self.raw: dict[str, dict[str, Any]] = {}
        for name in names:
            self.hear(self.ended(name, **spec))

    def ended(self, name: str, **spec: Any) -> dict[str, Any]:
        job = a_job(name).spec(**spec).placed("n1").running()
        return job.after(transitions.succeeded, "done", NOW, NOW).raw

    def hear(self, raw: dict[str, Any], **metadata: Any) -> None:
        self.version += 1
        raw["metadata"] |= {"resourceVersion": str(self.version), **metadata}
        self.raw[raw["metadata"]["name"]] = raw
        self.cache.jobs.observe(raw)

    def has(self, pod: WorkerPod) -> None:
        self.cache.state(1e9).note_pod(None, pod)

    def run(self, in_flight: frozenset[str] = frozenset()) -> CycleResult:
        return self.cycle.run(self.cache.state(1e9), WriteHistory({}, {}), self.now, in_flight)

    def settle(self) -> None:
        self.now += END_COUNTS_SECONDS
        self.cache.condense_ended_jobs()

    def expired(self, in_flight: frozenset[str] = frozenset()) -> set[str]:
        return {write.job.name for write in self.run(in_flight).writes if write.after.expired}

    def details(self, name: str) -> bool:
        record = self.cache.state(1e9).jobs[f"uid-{name}"]
        return record.desired is not None and bool(record.status.placement)


def test_details_are_dropped_once_the_end_counts_no_more() -> None:
    cluster = Cluster("a")
    cluster.run()
    cluster.now += END_COUNTS_SECONDS - 1
    cluster.cache.condense_ended_jobs()
    assert cluster.details("a")
    cluster.now += 1
    cluster.cache.condense_ended_jobs()
    assert not cluster.details("a")
    assert cluster.run().writes == ()
    gauges = samples_of(cluster.cycle.gauges(cluster.now))
    assert gauges["laneway_jobs", "ns", "succeeded"] == 1


def test_a_restart_reads_no_details_of_old_jobs() -> None:
    cluster = Cluster()
    cluster.now += END_COUNTS_SECONDS
    cluster.hear(cluster.ended("a"))
    assert not cluster.details("a")
    assert cluster.run().writes == ()


def test_an_edited_summary_of_an_old_job_is_corrected_with_all_details() -> None:
    cluster = Cluster("a")
    cluster.settle()
    cluster.run()
    cluster.now += DAY
    raw = cluster.raw["a"]
    edited = {**raw, "status": {**raw["status"], "state": "Running"}}
    cluster.hear(edited)
    (write,) = cluster.run().writes
    assert write.status.to_json() == {**raw["status"], "state": "Complete"}


def test_labels_of_an_old_job_may_change() -> None:
    cluster = Cluster("a")
    cluster.settle()
    cluster.run()
    cluster.hear(cluster.raw["a"], labels={"kept": "yes"})
    assert not cluster.details("a")
    assert cluster.run().writes == ()


def test_a_worker_that_runs_on_is_deleted_though_the_details_are_gone() -> None:
    cluster = Cluster("a")
    cluster.settle()
    cluster.run()
    pod = a_pod(a_job("a").placed("n1").record).running().record
    cluster.has(pod)
    (write,) = cluster.run().writes
    assert write.after.pods_to_delete == (pod,)
    assert not write.writes_status


def test_a_worker_that_goes_as_the_details_do_holds_its_gpu_no_more() -> None:
    cluster = Cluster("a")
    pod = a_pod(a_job("a").placed("n1").record).running().record
    cluster.cache.state(1e9).note_gpu_node(None, a_gpu_node("n1"))
    cluster.has(pod)
    cluster.run()
    (before,) = scheduler_input(cluster.cycle._sync).jobs
    assert before.state is JobState.TERMINATING
    cluster.settle()
    cluster.cache.state(1e9).note_pod(pod, None)
    cluster.run()
    assert scheduler_input(cluster.cycle._sync).jobs == ()


def test_old_jobs_expire_a_few_at_once_the_oldest_first() -> None:
    names = [f"j{number:02}" for number in range(EXPIRED_AT_ONCE + 3)]
    cluster = Cluster(*names)
    cluster.settle()
    assert cluster.expired() == set()
    cluster.now = NOW + 7 * DAY
    first = cluster.expired()
    assert len(first) == EXPIRED_AT_ONCE
    in_flight = frozenset(f"uid-{name}" for name in first)
    later = cluster.run(in_flight)
    assert not later.writes, "they are being deleted"
    assert later.due_seconds > cluster.now, "the others go when one of these is gone"
    gone, *_ = sorted(first)
    cluster.cache.jobs.forget(cluster.raw[gone]["metadata"])
    assert len(cluster.expired(in_flight - {f"uid-{gone}"})) == 1


def test_jobs_that_cannot_be_deleted_are_tried_a_few_at_once_and_hold_up_no_others() -> None:
    names = {f"j{number:02}" for number in range(3 * EXPIRED_AT_ONCE)}
    cluster = Cluster(*sorted(names))
    cluster.settle()
    cluster.run()
    cluster.now = NOW + 7 * DAY
    for _ in range(2):
        tried = set[str]()
        for _ in range(3):
            expired = cluster.expired()
            assert len(expired) <= EXPIRED_AT_ONCE
            assert cluster.expired(frozenset(f"uid-{name}" for name in expired)) == set()
            tried |= expired
            cluster.now += 1
        assert tried == names


def test_an_old_job_whose_time_to_live_is_extended_stays() -> None:
    cluster = Cluster("a")
    cluster.settle()
    cluster.run()
    cluster.now = NOW + 7 * DAY
    assert cluster.expired() == {"a"}
    cluster.hear(cluster.ended("a", ttlSecondsAfterFinished=int(8 * DAY)), generation=2)
    assert cluster.expired() == set()
    cluster.now = NOW + 8 * DAY
    cluster.run()  # it is one of the old jobs again
    assert cluster.expired() == {"a"}


@given(st.lists(st.integers(0, 40), min_size=1, max_size=30))
def test_every_old_job_expires_after_its_time(days: list[int]) -> None:
    cluster = Cluster()
    for number, ttl in enumerate(days):
        cluster.hear(cluster.ended(f"j{number}", ttlSecondsAfterFinished=int(ttl * DAY)))
    cluster.settle()
    for day in range(42):
        cluster.now = NOW + max(END_COUNTS_SECONDS, day * DAY)
        cluster.run()  # the first cycle sees when they expire
        while expired := cluster.expired():
            for name in expired:
                assert days[int(name[1:])] <= day
                cluster.cache.jobs.forget(cluster.raw[name]["metadata"])
        left = {int(record.name[1:]) for record in cluster.cache.jobs.records()}
        assert left == {number for number, ttl in enumerate(days) if ttl > day}
