"""Suggestions as changed demands: each fits, changes one field, and is the smallest change of its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from laneway.api.enforcement import Enforcement
from laneway.api.training_job import Sharing
from laneway.scheduling import (
    Demand,
    Job,
    Node,
    PlacementMode,
    Policies,
    Scheduler,
    WorkerPlacement,
    policies,
)
from laneway.scheduling.elastic.policy import ElasticJob
from laneway.scheduling.explain.suggestions import Suggestion, suggestions
from laneway.scheduling.gpus.allocation import AllocationStatus
from laneway.scheduling.gpus.allocations import Allocations
from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.gpus.views import IDLE
from laneway.scheduling.placement.best_fit import BestFit
from laneway.scheduling.placement.policy import WithoutProfile

from tests.unit.core.scheduling.builders import GIB, NOW, JobBuilder, a_job, a_node


@dataclass
class Fits(WithoutProfile):
    """A placement policy with a rule for what fits; it records what it is asked."""

    rule: Callable[[Demand], bool]
    tried: list[Demand] = field(default_factory=list)

    def place(self, job: Job, capacity: FreeCapacity) -> tuple[WorkerPlacement, ...] | None:
        self.tried.append(job.demand)
        return () if self.rule(job.demand) else None


def anything(job: Job) -> bool:
    """No other reason keeps a job from starting."""
    return True


def free(nodes: Sequence[Node], *jobs: JobBuilder) -> FreeCapacity:
    """What the jobs leave free."""
    allocations = Allocations(nodes)
    for job in jobs:
        allocations.add(job.made, job.made.placement, AllocationStatus.ALLOCATED, (0, 0))
    return FreeCapacity(allocations, allocations.views.track(IDLE), {})


def found(demand: Demand, rule: Callable[[Demand], bool]) -> dict[str, Demand]:
    """By field: the demand suggested where a rule says what fits."""
    made = suggestions(Job("j", demand, 0.0), free([a_node("n", 1)]), Fits(rule), anything)
    assert all(each.text.startswith(each.field) for each in made)
    return {each.field: each.demand for each in made}


@pytest.mark.parametrize(
    ("demand", "rule", "want"),
    [
        (
            Demand(4, mode=PlacementMode.CONSOLIDATE),
            lambda demand: demand.mode is PlacementMode.SPREAD,
            {"placement": {"mode": PlacementMode.SPREAD}},
        ),
        (Demand(exclusive=True), lambda demand: not demand.exclusive, {"sharing": {"exclusive": False}}),
        (Demand(4), lambda demand: demand.workers <= 1, {"workers": {"workers": 1}}),
        (Demand(2), lambda demand: demand.workers <= 1, {"workers": {"workers": 1}}),
        (
            Demand(4, min_workers=3, max_workers=8),
            lambda demand: demand.workers <= 2,
            {"workers": {"workers": 2, "min_workers": None, "max_workers": None}},
        ),
        (
            Demand(share_percent=50),
            lambda demand: demand.share_percent <= 30,
            {"gpus.sharePercent": {"share_percent": 30}},
        ),
        (
            Demand(gpus_per_worker=2),
            lambda demand: demand.gpus_per_worker <= 1,
            {"gpus.count": {"gpus_per_worker": 1}},
        ),
        (
            Demand(models=frozenset({"H100"})),
            lambda demand: not demand.models,
            {"gpus.models": {"models": frozenset()}},
        ),
        (
            Demand(minimum_enforcement=Enforcement.MPS),
            lambda demand: demand.minimum_enforcement is Enforcement.NONE,
            {"minimumEnforcement": {"minimum_enforcement": Enforcement.NONE}},
        ),
        (
            Demand(minimum_enforcement=Enforcement.MPS),
            lambda demand: demand.minimum_enforcement in (Enforcement.NONE, Enforcement.WATCHDOG),
            {"minimumEnforcement": {"minimum_enforcement": Enforcement.WATCHDOG}},
        ),
    ],
)
def test_the_largest_demand_that_fits_is_suggested(
    demand: Demand, rule: Callable[[Demand], bool], want: dict[str, dict[str, object]]
) -> None:
    assert found(demand, rule) == {
        name: replace(demand, **changes)  # type: ignore[arg-type]
        for name, changes in want.items()
    }


def test_a_large_gang_is_told_all_changes_exactly() -> None:
    demand = Demand(1024, models=frozenset({"H100"}), minimum_enforcement=Enforcement.MPS)
    made = found(
        demand,
        lambda tried: (
            tried.workers <= 600
            or tried.share_percent <= 41
            or not tried.models
            or tried.minimum_enforcement is Enforcement.NONE
        ),
    )
    assert set(made) == {"workers", "gpus.sharePercent", "gpus.models", "minimumEnforcement"}
    assert made["workers"].workers == 600
    assert made["gpus.sharePercent"].share_percent == 41


@pytest.mark.parametrize("fitting", [2**40 - 1, 10**9, 1, 0])
def test_the_number_of_trials_is_bounded_and_nothing_untried_is_suggested(fitting: int) -> None:
    demand = Demand(2**40, models=frozenset({"H100"}), minimum_enforcement=Enforcement.MPS)
    policy = Fits(lambda tried: tried.workers <= fitting)
    made = suggestions(Job("j", demand, 0.0), free([a_node("n", 1)]), policy, anything)
    assert len(policy.tried) <= 32
    assert all(each.demand in policy.tried and policy.rule(each.demand) for each in made)


def test_a_small_gang_needs_few_trials() -> None:
    policy = Fits(lambda tried: tried.workers <= 2)
    suggestions(Job("j", Demand(4, exclusive=True), 0.0), free([a_node("n", 1)]), policy, anything)
    assert len(policy.tried) == len(set(policy.tried)), "no demand is tried twice"


def test_a_job_that_would_fit_as_it_is_is_not_told_to_stay_as_it_is() -> None:
    demand = Demand()
    assert demand not in [each.demand for each in all_of(demand, [a_node("n", 1)])]


def all_of(demand: Demand, nodes: Sequence[Node], *jobs: JobBuilder) -> tuple[Suggestion, ...]:
    return suggestions(Job("j", demand, 0.0), free(nodes, *jobs), BestFit(), anything)


def test_an_exclusive_job_is_told_that_it_would_fit_beside_others() -> None:
    scheduler = Scheduler([a_node("n", 1, percent=200)], policies(order="fifo"))
    old = a_job("old").share(60).runs_on("n/0").profiled(GIB, GIB)
    scheduler.observe(old.made)
    scheduler.observe(a_job("j").needs(exclusive=True).created(10).profiled(GIB, GIB).made)
    scheduler.plan(NOW)
    (text,) = scheduler.suggestions("j")
    name, _, values = text.partition(": ")
    assert name == "sharing"
    assert values.split(" instead of ") == [Sharing.LANES, Sharing.EXCLUSIVE]


def suggested(nodes: Sequence[Node], key: str, *jobs: JobBuilder, chosen: Policies) -> list[str]:
    """The fields that the scheduler suggests to change."""
    scheduler = Scheduler(nodes, chosen)
    for job in jobs:
        scheduler.observe(job.made)
    scheduler.plan(NOW)
    return [text.partition(":")[0].partition(" ")[0] for text in scheduler.suggestions(key)]


class TestOtherReasonsToWait:
    """Free GPUs are not enough: a suggestion that the order or an admission policy would refuse is not made."""

    def test_a_job_beyond_its_quota_is_told_only_what_its_quota_allows(self) -> None:
        quota = policies(
            order="fifo", admission=("quota",), admission_options={"quota": {"limit_gpus": {"a": 2}}}
        )
        job = a_job("a/j").needs(4, models=("A100",))
        scheduler = Scheduler([a_node("n", 4)], quota)
        scheduler.observe(job.made)
        scheduler.plan(NOW)
        assert scheduler.suggestions("a/j") == (
            "workers: 2 instead of 4",
            "gpus.sharePercent: 50 instead of a whole GPU",
        )

    def test_a_job_behind_another_one_is_told_only_what_takes_it_past(self) -> None:
        strict, nodes = policies(order="fifo"), [a_node("n", 4), a_node("t", 1, model="T4")]
        old, gang = a_job("old").runs_on("n/0"), a_job("gang").needs(4, models=("A100",)).created(1)
        behind = a_job("j").needs(3, models=("A100",)).created(2)
        assert suggested(nodes, "j", old, gang, behind, chosen=strict) == []
        single = a_job("j").needs(models=("A100",)).created(2)
        assert suggested(nodes, "j", old, gang, single, chosen=strict) == []
        assert suggested(nodes, "gang", old, gang, single, chosen=strict) == [
            "workers",
            "gpus.models",
        ]

    def test_a_job_that_the_elastic_policy_gives_nothing_is_told_to_have_a_fixed_size(self) -> None:
        """Its range can be taken away while it is suspended."""
        chosen = replace(policies(order="fifo"), elastic=NoWorkers())
        job = a_job("j").needs(2, min_workers=1, max_workers=4, models=("A100",))
        assert suggested([a_node("n", 4)], "j", job, chosen=chosen) == ["workers"]
        made = Scheduler([a_node("n", 4)], chosen)
        made.observe(job.made)
        made.decide(NOW)
        assert made.suggestions("j") == ("workers: 4 without minWorkers and maxWorkers",)


class NoWorkers:
    """Gives no job any workers."""

    def allot(
        self, jobs: Sequence[ElasticJob], free_gpus: Mapping[str, int], now_seconds: float
    ) -> Mapping[str, int]:
        return {job.key: 0 for job in jobs}
