"""A policy that fails costs the decision of its stage only. The elastic stage is in ``test_elastic_pools``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laneway.scheduling import HostResources, Scheduler, policies
from laneway.scheduling.order.gavel_las import GavelLAS
from laneway.scheduling.order.policy import RoundJob

from tests.support.property_examples import examples
from tests.unit.core.scheduling.builders import GIB, NOW, a_job, a_node

HOST = HostResources.of({"cpu": 32_000, "memory": 64 * GIB})


@dataclass(frozen=True)
class Odd:
    """Gives what it is told to give."""

    answer: object

    def allot(self, *_: object) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("answer", [ValueError("no"), {}, None, {"a": ()}], ids=str)
def test_an_allocation_policy_that_fails_allots_nothing(answer: object) -> None:
    by: Any = replace(policies(order="fifo"), allocation=Odd(answer))
    made = Scheduler([replace(a_node("n", 2), host=HOST)], by)
    made.observe(a_job("a").runs_on("n/0").made)
    made.observe(a_job("b").made)
    decision = made.decide(NOW)
    assert set(decision.starts) == {"b"}
    assert made.allotments(decision) == {}
    assert [(each.stage, each.policy) for each in made.take_failures()] == [("allocation", "Odd")]
    made.observe(a_job("b").runs_on("n/1").made)
    assert made.plan(NOW + 1).allotments == {}


@pytest.mark.parametrize("policy", ["proportional", "greedy", "tune", "optimal"])
def test_a_node_that_offers_no_shares_now_stops_no_division(policy: str) -> None:
    nothing = replace(a_node("none", 1), host=HOST)
    nothing = replace(nothing, gpus=tuple(replace(gpu, allocatable_percent=0) for gpu in nothing.gpus))
    made = Scheduler([replace(a_node("n", 1), host=HOST), nothing], policies(order="fifo", allocation=policy))
    made.observe(a_job("a").runs_on("n/0").made)
    assert set(made.allotments(made.decide(NOW))) == {"a"}
    assert made.take_failures() == ()


def test_where_the_targets_of_a_round_fail_jobs_start_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise ValueError("the allocation has no solution")

    monkeypatch.setattr(GavelLAS, "targets", wrong)
    made = Scheduler(
        [a_node("fast", 1, model="V100"), a_node("slow", 1, model="K80")], policies(order="gavel-las")
    )
    for name in "ab":
        made.observe(a_job(name).made)
    assert set(made.decide(NOW).starts) == {"a", "b"}
    assert [(each.stage, each.policy) for each in made.take_failures()] == [("order", "GavelLAS")]


def test_a_round_begins_although_a_node_has_left_with_a_job_on_it() -> None:
    made = Scheduler([a_node("n", 1), a_node("gone", 1)], policies(order="gavel-las"))
    made.observe(a_job("a").runs_on("gone/0").made)
    made.set_nodes([a_node("n", 1)])
    made.observe(a_job("b").made)
    assert set(made.decide(NOW).starts) == {"b"}


@example(
    speeds=[{"A100": 1.0, "K80": 1e3, "T4": 1e-4}, {"A100": 1e-6, "K80": 1e6, "T4": 1e3}],
    gpus=[8.0, 8.0, 8.0],
)
@given(
    speeds=st.lists(
        st.dictionaries(
            st.sampled_from(["A100", "K80", "T4"]), st.integers(-12, 6).map(lambda at: 10.0**at), min_size=1
        ),
        min_size=1,
        max_size=12,
    ),
    gpus=st.lists(st.sampled_from([1.0, 8.0, 1000.0]), min_size=3, max_size=3),
)
@settings(max_examples=examples(40), deadline=None)
def test_no_speed_that_jobs_report_leaves_a_round_without_targets(
    speeds: list[dict[str, float]], gpus: list[float]
) -> None:
    jobs = [
        RoundJob(a_job(f"j{number}").made, 1.0, per_second, "") for number, per_second in enumerate(speeds)
    ]
    found = GavelLAS().targets(jobs, dict(zip(["A100", "K80", "T4"], gpus, strict=True)))
    assert all(sum(found[each.job.key].values()) > 0 for each in jobs)
