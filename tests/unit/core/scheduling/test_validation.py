"""A plan that breaks an invariant does not leave: each break is named."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest
from laneway.api.enforcement import Enforcement
from laneway.lanes import LaneRules
from laneway.scheduling import (
    InvalidPlan,
    JobState,
    Plan,
    Preemption,
    PreemptionReason,
    WaitingCode,
    WaitingReason,
    WorkerPlacement,
)
from laneway.scheduling.placement.policy import WithoutProfile

from tests.unit.core.scheduling.builders import NOW, JobBuilder, a_job, a_node, a_snapshot, eager
from tests.unit.core.scheduling.whole_plan import plan, validate

WAITS = WaitingReason(WaitingCode.GPUS_BUSY, "", "")
GO = Preemption("r", PreemptionReason.SUSPENDED, "", None)
RUNS = a_job("r").runs_on("n/0")
WANTS = a_job("w")
UNDER_MPS = WANTS.needs(share_percent=20, minimum_enforcement=Enforcement.MPS)


def on(*gpus: str, rank: int = 0, share: int = 100, node: str = "n") -> WorkerPlacement:
    return WorkerPlacement(rank, node, gpus, share)


CASES: list[tuple[str, list[JobBuilder], Plan, str]] = [
    ("a job without a fate", [WANTS], Plan(), "job w is Waiting and is to do nothing"),
    (
        "two fates",
        [WANTS],
        Plan(starts={"w": (on("n/1"),)}, waiting={"w": WAITS}),
        "job w is Waiting and is to start and wait",
    ),
    ("a job that is not there", [], Plan(keeps=("x",)), "lets x stay, and the snapshot has no such job"),
    (
        "a running job that starts",
        [RUNS],
        Plan(starts={"r": (on("n/1"),)}),
        "job r is Running and is to start",
    ),
    (
        "a leaving job that stays",
        [a_job("r").leaves("n/0")],
        Plan(keeps=("r",)),
        "job r is Terminating and is to stay",
    ),
    (
        "a suspended job that starts",
        [WANTS.suspended()],
        Plan(starts={"w": (on("n/1"),)}),
        "job w is Waiting and is to start",
    ),
    (
        "a job that must not be preempted",
        [RUNS.never_preempted()],
        Plan(preemptions={"r": GO}),
        "job r is to yield, and it is not preemptible",
    ),
    (
        "half a gang",
        [WANTS.needs(2)],
        Plan(starts={"w": (on("n/1"),)}),
        r"job w has 2 workers and starts with ranks \[0\]",
    ),
    (
        "a gang on one GPU",
        [WANTS.needs(2, share_percent=10)],
        Plan(starts={"w": (on("n/1", share=10), on("n/1", share=10, rank=1))}),
        "workers of job w share a GPU",
    ),
    (
        "too few GPUs for a worker",
        [WANTS.needs(gpus_per_worker=2)],
        Plan(starts={"w": (on("n/1"),)}),
        "worker 0 of job w needs 2 GPUs and gets 1",
    ),
    (
        "a node that takes nobody",
        [WANTS],
        Plan(starts={"w": (on("c/0", node="c"),)}),
        "would start on c, which takes no worker of it",
    ),
    (
        "a GPU of another node",
        [WANTS],
        Plan(starts={"w": (on("c/0"),)}),
        "would use c/0, which is not a healthy GPU of n",
    ),
    (
        "a sick GPU",
        [WANTS],
        Plan(starts={"w": (on("n/3"),)}),
        "would use n/3, which is not a healthy GPU of n",
    ),
    (
        "another model",
        [WANTS.needs(models=["H200"])],
        Plan(starts={"w": (on("n/1"),)}),
        "would use n/1, a A100, which it does not accept",
    ),
    (
        "a GPU that is held by less than it demands",
        [WANTS.needs(minimum_enforcement=Enforcement.MPS)],
        Plan(starts={"w": (on("n/1"),)}),
        "would use n/1, held by Watchdog, and demands MPS",
    ),
    (
        "another share",
        [WANTS.share(50)],
        Plan(starts={"w": (on("n/1", share=40),)}),
        "gets 40 percent of n/1 and needs 50",
    ),
    (
        "more than a GPU offers",
        [RUNS, WANTS.share(50)],
        Plan(keeps=("r",), starts={"w": (on("n/0", share=50),)}),
        "n/0 offers 100 percent and is promised 150 to r, w",
    ),
    (
        "a GPU whose holder still has to go",
        [RUNS, WANTS],
        Plan(preemptions={"r": GO}, starts={"w": (on("n/0"),)}),
        "n/0 offers 100 percent and is promised 200",
    ),
    (
        "more memory than a GPU has",
        [a_job("r").share(60).runs_on("o/0"), WANTS.share(60)],
        Plan(keeps=("r",), starts={"w": (on("o/0", share=60, node="o"),)}),
        "o/0 has 100 bytes for jobs, and r, w need 120 at least",
    ),
    (
        "a job beside one that is alone",
        [
            a_job("r").needs(exclusive=True, share_percent=50).profiled(1, 1).runs_on("o/0"),
            WANTS.share(60).profiled(1, 1),
        ],
        Plan(keeps=("r",), starts={"w": (on("o/0", share=60, node="o"),)}),
        "o/0 would be held by one job alone, but r, w are on it",
    ),
    (
        "two gangs and one lane",
        [
            a_job("r").needs(2, share_percent=50).profiled(1, 1).runs_on("o/0", "n/0"),
            WANTS.needs(2, share_percent=50).profiled(1, 1),
        ],
        Plan(keeps=("r",), starts={"w": (on("o/0", share=50, node="o"), on("n/1", share=50, rank=1))}),
        "o/0 has 1 lanes for 2 jobs on several GPUs",
    ),
    (
        "a job whose share MPS would not hold",
        [a_job("r").share(60).runs_on("p/0"), UNDER_MPS],
        Plan(keeps=("r",), starts={"w": (on("p/0", share=20, node="p"),)}),
        "job w demands MPS and has 20 percent of p/0, where r has 60: MPS would limit both to the larger share",
    ),
    (
        "a larger job beside one that MPS holds",
        [a_job("r").share(60), UNDER_MPS.runs_on("p/0")],
        Plan(keeps=("w",), starts={"r": (on("p/0", share=60, node="p"),)}),
        "job w demands MPS and has 20 percent of p/0, where r has 60",
    ),
    (
        "more clients than an MPS server takes",
        [*(a_job(f"r{number}").share(1).runs_on("p/0") for number in range(48)), WANTS.share(1)],
        Plan(
            keeps=tuple(f"r{number}" for number in range(48)),
            starts={"w": (on("p/0", share=1, node="p"),)},
        ),
        "p/0 would have 49 clients of MPS, which takes 48",
    ),
]


@pytest.mark.parametrize(("story", "jobs", "broken", "says"), CASES, ids=[case[0] for case in CASES])
def test_a_broken_plan_is_refused(story: str, jobs: list[JobBuilder], broken: Plan, says: str) -> None:
    nodes = [
        a_node("n", 4, sick=[3]),
        a_node("c", 1, cordoned=True),
        a_node("o", 1, memory=100, percent=200, lanes=LaneRules(max_lanes=1, padding_percent=0)),
        a_node("p", 1, enforcement="MPS"),
    ]
    with pytest.raises(InvalidPlan, match=says):
        validate(a_snapshot(nodes, *jobs), broken)


def test_a_policy_that_breaks_an_invariant_is_caught_by_the_planner() -> None:
    class Careless(WithoutProfile):
        def place(self, job: object, capacity: object) -> tuple[WorkerPlacement, ...]:
            return (on("n/0"),)

    snapshot = a_snapshot([a_node("n", 2)], a_job("a"), a_job("b"))
    with pytest.raises(InvalidPlan, match="n/0 offers 100 percent and is promised 200 to a, b"):
        plan(snapshot, NOW, replace(eager(), placement=Careless()))


def test_a_snapshot_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="lists a job twice: a"):
        a_snapshot([], a_job("a"), a_job("a"))
    with pytest.raises(ValueError, match="lists a node twice: n"):
        a_snapshot([a_node("n"), a_node("n")])
    with pytest.raises(ValueError, match="job a is Running and has 0 placed workers"):
        replace(a_job("a").made, state=JobState.RUNNING)


@pytest.mark.parametrize(
    ("demand", "says"),
    [
        ({"workers": 0}, "workers is 0"),
        ({"gpus_per_worker": 0}, "gpus_per_worker is 0"),
        ({"share_percent": 101}, "share_percent is 101"),
        ({"gpus_per_worker": 2, "share_percent": 50}, "each of them whole"),
        ({"memory_bytes": 0}, "memory_bytes is 0"),
    ],
)
def test_a_demand_that_makes_no_sense_is_refused(demand: dict[str, int], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        a_job("a").needs(**demand)


def test_an_empty_plan_is_read_only() -> None:
    assert isinstance(Plan().starts, MappingProxyType)
