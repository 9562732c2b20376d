"""How fast jobs run beside others, by the iterations that their nodes count, and what the scheduler makes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from laneway.api.training_job_status import ProfileStatus
from laneway.operator.cycle.cycle import Cycle, CycleResult
from laneway.operator.cycle.shared_speeds import Count, MeasuredSpeed, SpeedBook
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.pacing import SPEED_ITERATIONS, SPEED_SECONDS
from laneway.operator.state.records.job_record import JobRecord
from laneway.scheduling.config.operator_config import OperatorConfig

from tests.unit.operator.builders import (
    GIB,
    NOW,
    a_gpu_node,
    a_job,
    a_plain_session,
    a_pod,
    a_session,
    a_view,
)

PROFILE = ProfileStatus(
    persistent_bytes=GIB,
    ephemeral_bytes=GIB,
    iterations=100,
    iteration_microseconds=400_000,
    data_microseconds=100_000,
)
ALONE_SECONDS = 0.5
BESIDE = frozenset({"ns/other"})


def count(
    at: float,
    iterations: int,
    sharers: frozenset[str] = BESIDE,
    attempt: int = 1,
    models: frozenset[str] = frozenset({"A100"}),
    templates: tuple[str, ...] = ("ns/neighbour",),
) -> Count:
    return Count(at, iterations, attempt, sharers, models, templates if sharers else ())


def note(book: SpeedBook, at: Count, profile: ProfileStatus | None = PROFILE) -> MeasuredSpeed | None:
    return book.note("uid", "ns/template", at, profile)


def test_a_speed_is_the_pace_beside_others_over_the_pace_alone() -> None:
    book = SpeedBook()
    assert note(book, count(0, 1000)) is None
    found = note(book, count(100, 1100))
    assert found == MeasuredSpeed(100 * ALONE_SECONDS / 100, BESIDE)


def test_the_pace_alone_is_that_of_a_time_without_sharers_where_there_was_one() -> None:
    book = SpeedBook()
    note(book, count(0, 0, frozenset()))
    assert note(book, count(100, 125, frozenset())) is None
    note(book, count(100, 125))
    found = note(book, count(200, 175))
    assert found is not None
    assert found.ratio == pytest.approx(50 / 125)


def test_a_pace_on_other_gpu_models_says_nothing() -> None:
    book, slower = SpeedBook(), frozenset({"T4"})
    note(book, count(0, 0, frozenset()))
    note(book, count(100, 1000, frozenset()))
    book.note("other", "ns/template", count(100, 0, models=slower), None)
    assert book.note("other", "ns/template", count(200, 50, models=slower), None) is None
    slow = PROFILE.model_copy(update={"iteration_microseconds": 1_900_000})
    found = book.note("other", "ns/template", count(300, 95, models=slower), slow)
    assert found is not None
    assert found.ratio == pytest.approx(45 * 2 / 100)


def test_of_the_reported_times_the_shortest_counts() -> None:
    """Beside others, a job also reports longer iterations."""
    book = SpeedBook()
    note(book, count(0, 0))
    slowed = PROFILE.model_copy(update={"iteration_microseconds": 1_000_000})
    found = note(book, count(100, 80), slowed)
    assert found is not None
    assert found.ratio == pytest.approx(80 * ALONE_SECONDS / 100)


@pytest.mark.parametrize(
    "later",
    [
        count(SPEED_SECONDS - 1, 1000),
        count(1000, SPEED_ITERATIONS - 1),
        count(100, 100, frozenset({"ns/another"})),
        count(100, 100, attempt=2),
    ],
)
def test_too_short_a_time_or_other_company_says_nothing(later: Count) -> None:
    book = SpeedBook()
    note(book, count(0, 0))
    assert note(book, later) is None


def test_a_count_that_falls_begins_again() -> None:
    book = SpeedBook()
    note(book, count(0, 500))
    assert note(book, count(100, 20)) is None
    assert note(book, count(200, 120)) is not None


def test_short_jobs_of_a_template_that_come_one_after_another_are_measured_together() -> None:
    """Each is there for 40 s of a minute, in which it starts for 20 s, so none is there long enough."""
    book, found = SpeedBook(), []
    for number in range(4):
        at, sharers = 60.0 * number, frozenset({f"ns/trial-{number}"})
        done = number * 60
        found.append(note(book, count(at + 20, done + 40, sharers)))
        found.append(note(book, count(at + 40, done + 60, sharers)))
        book.interrupt("uid")
    assert [each.ratio for each in found if each] == pytest.approx([ALONE_SECONDS])


def test_times_beside_jobs_of_another_template_are_not_added() -> None:
    book = SpeedBook()
    for number in range(10):
        sharers, templates = frozenset({f"ns/{number}"}), (f"ns/template-{number}",)
        assert note(book, count(60 * number, 100 * number, sharers, templates=templates)) is None
        assert note(book, count(60 * number + 40, 100 * number + 80, sharers, templates=templates)) is None


def test_a_job_that_evaluates_now_and_then_while_it_is_alone_keeps_its_pace_alone() -> None:
    """It iterates twice a second, and evaluated in the last minute before another job came."""
    book, done = SpeedBook(), 0
    for minute, iterations in enumerate((0, 120, 120, 120, 20)):
        done += iterations
        note(book, count(60 * minute, done, frozenset()))
    note(book, count(300, done))
    found = note(book, count(360, done + 60))
    assert found is not None
    assert found.ratio == pytest.approx(0.5)


def test_the_time_in_which_a_job_evaluates_is_no_slow_down() -> None:
    """For a minute, just after another job came."""
    book, found = SpeedBook(), []
    for number in range(20):
        found.append(note(book, count(10 * number, 1000 + 20 * max(0, number - 6))))
    assert {each.ratio for each in found if each} == {1.0}


def test_iterations_that_take_longer_than_the_time_between_reports_count() -> None:
    book, found = SpeedBook(), []
    slow = PROFILE.model_copy(update={"iteration_microseconds": 20_000_000, "data_microseconds": 0})
    for number in range(100):
        found.append(note(book, count(10 * number, 1000 + number // 4), slow))
    assert [each.ratio for each in found if each] == pytest.approx([0.5], abs=0.05)


def test_nothing_is_said_while_the_pace_alone_is_unknown() -> None:
    book = SpeedBook()
    note(book, count(0, 0), None)
    assert note(book, count(100, 100), None) is None


class Cluster:
    """One GPU that two jobs share, and the operator's cycles."""

    def __init__(self, **spec: object) -> None:
        self.jobs = [self._job("reads", PROFILE), self._job("writes", PROFILE, **spec)]
        self.cycle = Cycle(OperatorConfig(sharing="lanes"))
        self.cluster = a_view()

    def _job(self, name: str, profile: ProfileStatus, **spec: object) -> JobRecord:
        made = a_job(name).spec(**spec).placed("n1", at=NOW - 5000).running(since=NOW - 4000)
        return made.ran(profile, at=NOW - 5000).record

    def run(self, at: float, *iterations: int, more: tuple[dict[str, object], ...] = ()) -> CycleResult:
        """Have the node report these iterations then, and the operator decide."""
        pods = [a_pod(job).running(since=NOW - 4000).record for job in self.jobs]
        figures = {
            "lane": 0,
            "profiled": True,
            "persistentBytes": GIB,
            "ephemeralBytes": GIB,
            "iterationMicroseconds": PROFILE.iteration_microseconds,
            "dataMicroseconds": PROFILE.data_microseconds,
        }
        sessions = [
            a_session(pod, **figures, iterations=count) for pod, count in zip(pods, iterations, strict=True)
        ]
        node = a_gpu_node("n1", 1, sessions={0: [*sessions, *more]}, percent=800)
        node = replace(node, observed_seconds=at)
        view = a_view(self.jobs, pods, [node])
        return self.cycle.run(view, WriteHistory({}, {}), at)


def separated(result: CycleResult) -> list[str]:
    assert result.problem == ""
    found = []
    for write in result.writes:
        last = write.status.preemption or write.status.last_preemption
        if last is not None and last.reason == "Separated":
            found.append(write.job.name)
    return found


def test_jobs_that_lose_by_sharing_are_separated_once_their_nodes_counted_enough() -> None:
    cluster = Cluster()
    assert separated(cluster.run(NOW, 1000, 1000)) == []
    assert len(separated(cluster.run(NOW + 100, 1060, 1060))) == 1, "each at 0.3 of its speed"


def test_jobs_that_gain_by_sharing_stay() -> None:
    cluster = Cluster()
    cluster.run(NOW, 1000, 1000)
    assert separated(cluster.run(NOW + 100, 1180, 1170)) == []


@pytest.mark.parametrize(
    ("spec", "want"),
    [({}, ["reads"]), ({"maxSlowdownPercent": 40}, []), ({"maxSlowdownPercent": 0}, ["reads"])],
)
def test_a_job_that_loses_more_than_the_bound_in_its_spec_gets_its_gpu_back(
    spec: dict[str, object], want: list[str]
) -> None:
    """They run at 0.9 and 0.7 of their speed: together they gain."""
    cluster = Cluster(**spec)
    cluster.run(NOW, 1000, 1000)
    found = cluster.run(NOW + 100, 1180, 1140)
    assert separated(found) == want
    messages = [write.status.preemption.message for write in found.writes if write.status.preemption]
    assert all("ns/writes, which was measured at 70% of its speed alone" in each for each in messages)


def test_the_time_in_which_a_job_starts_is_no_slow_down() -> None:
    """Both import their libraries for half a minute, then train at 0.9 of their speed."""
    cluster = Cluster()
    for at, *iterations in ((0, 0, 0), (30, 1, 1), (61, 57, 57), (95, 118, 118)):
        assert separated(cluster.run(NOW + at, *iterations)) == []


def test_a_neighbour_that_computes_something_else_than_iterations_is_found_out() -> None:
    """Another job of its template was measured, so it was let in. It takes half of the time, and reports no iteration."""
    cluster = Cluster()
    assert separated(cluster.run(NOW, 0, 1000)) == []
    assert separated(cluster.run(NOW + 100, 0, 1060)) == ["reads"], "the other one keeps 0.3 of its speed"


def test_beside_a_plain_pod_nothing_is_measured() -> None:
    cluster, plain = Cluster(), (a_plain_session("plain", 10),)
    cluster.run(NOW, 1000, 1000, more=plain)
    assert separated(cluster.run(NOW + 100, 1060, 1060, more=plain)) == []
