"""Which GPUs the elastic policy divides, and among which jobs: other jobs, nodes and quotas must not cost elastic jobs theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling import Demand, Job, Node, Policies, Scheduler, policies
from laneway.scheduling.elastic.policy import ElasticJob
from laneway.scheduling.model.plan import NOT_COMPETING

from tests.support.property_examples import examples
from tests.unit.core.scheduling.builders import a_job, a_node

LATER = 600.0
"""After the minimum run time."""


def elastic(name: str, most: int = 8, **demand: Any) -> Job:
    return Job(name, Demand(1, min_workers=1, max_workers=most, **demand), created_seconds=0.0)


def running(job: Job, *gpus: str) -> Job:
    """The job on these GPUs."""
    demand = job.demand
    held = a_job(job.key).needs(len(gpus) // demand.gpus_per_worker, gpus_per_worker=demand.gpus_per_worker)
    workers = held.made.demand.workers
    return replace(held.runs_on(*gpus).made, demand=replace(demand, workers=workers))


def scheduler(
    policy: str, nodes: Sequence[Node], *jobs: Job, avoid: Mapping[str, str] | None = None, **options: Any
) -> Scheduler:
    made = Scheduler(nodes, policies(order="fifo", elastic=policy, **options))
    for job in jobs:
        made.observe(job)
    for key, node in (avoid or {}).items():
        made.avoid(key, frozenset({node}))
    return made


@pytest.mark.parametrize("policy", ["pollux", "bftrainer"])
def test_rigid_jobs_beyond_a_quota_take_no_gpus_from_elastic_jobs(policy: str) -> None:
    """Else one user could stop all elastic jobs of the cluster with jobs that never start."""
    quota = {"admission": ("quota",), "admission_options": {"quota": {"limit_gpus": {"greedy": 1}}}}
    greedy = [a_job(f"greedy/{number}").needs(2).made for number in range(4)]
    job = running(elastic("team/m", most=4), "n/0", "n/1", "n/2", "n/3")
    made = scheduler(policy, [a_node("n", 4)], job, *greedy, **quota)
    assert made.decide(LATER).preemptions == {}


@pytest.mark.parametrize("policy", ["pollux", "bftrainer"])
def test_a_quota_is_kept_for_all_waiting_jobs_of_a_namespace_together(policy: str) -> None:
    quota = {"admission": ("quota",), "admission_options": {"quota": {"limit_gpus": {"greedy": 1}}}}
    greedy = [a_job(f"greedy/{number}").made for number in range(8)]
    job = running(elastic("team/m", most=4), "n/0", "n/1", "n/2", "n/3")
    decision = scheduler(policy, [a_node("n", 4)], job, *greedy, **quota).decide(LATER)
    assert decision.rescales == {"team/m": 3}


@pytest.mark.parametrize("policy", ["pollux", "bftrainer"])
def test_no_gpus_are_kept_for_a_rigid_job_that_they_do_not_help(policy: str) -> None:
    """It waits for the jobs that may not be preempted. Until they end, the idle GPUs serve elastic jobs."""
    long = a_job("long").needs(4).never_preempted().runs_on("a/0", "a/1", "a/2", "a/3").made
    made = scheduler(
        policy, [a_node("a"), a_node("b")], long, a_job("wide").needs(8).made, running(elastic("m"), "b/0")
    )
    assert made.decide(LATER).preemptions.keys() <= {"m"}
    assert made.decide(LATER).rescales.get("m", 1) > 0


@pytest.mark.parametrize("policy", ["pollux", "bftrainer"])
def test_a_job_on_a_cordoned_node_runs_on(policy: str) -> None:
    job = running(elastic("m"), "n/0", "n/1")
    nodes = [a_node("n", 4, cordoned=True), a_node("other", 4)]
    for where in (nodes[:1], nodes):
        assert scheduler(policy, where, job).decide(LATER).preemptions == {}


@pytest.mark.parametrize("policy", ["pollux", "bftrainer"])
def test_a_pool_of_other_gpus_neither_gives_nor_takes(policy: str) -> None:
    """The older job may use A100s only, and they are taken: the T4s are the other's."""
    nodes = [a_node("a", 4), a_node("t", 4, model="T4")]
    held = a_job("rigid").needs(4).runs_on("a/0", "a/1", "a/2", "a/3").made
    first = elastic("first", models=frozenset({"A100"}))
    second = replace(elastic("second", most=4, models=frozenset({"T4"})), created_seconds=1.0)
    second = replace(second, explored_workers=4)
    decision = scheduler(policy, nodes, held, first, second).decide(LATER)
    assert {key: len(workers) for key, workers in decision.starts.items()} == {"second": 4}


@pytest.mark.parametrize("policy", ["pollux", "bftrainer"])
def test_gpus_of_avoided_nodes_do_not_count(policy: str) -> None:
    job = replace(elastic("m"), explored_workers=8)
    made = scheduler(policy, [a_node("a", 2), a_node("b", 4)], job, avoid={"m": "b"})
    assert len(made.decide(LATER).starts["m"]) == 2


@pytest.mark.parametrize("policy", ["pollux", "bftrainer"])
def test_gpus_that_are_no_whole_worker_on_their_node_do_not_count(policy: str) -> None:
    """Three and one idle GPUs are one worker of two GPUs, and not two."""
    rigid = a_job("r").needs(3).runs_on("b/0", "b/1", "b/2").made
    job = replace(elastic("m", gpus_per_worker=2), explored_workers=4)
    made = scheduler(policy, [a_node("a", 3), a_node("b", 4)], rigid, job)
    assert len(made.decide(LATER).starts["m"]) == 1


def test_a_rigid_job_that_elastic_ones_keep_from_starting_gets_its_gpus() -> None:
    job = running(elastic("m", most=4), "n/0", "n/1", "n/2", "n/3")
    made = scheduler("pollux", [a_node("n", 4)], job, a_job("r").needs(3).made)
    assert made.decide(LATER).rescales == {"m": 1}


class Odd:
    """Gives what it is told to give."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def allot(self, jobs: Sequence[ElasticJob], free_gpus: Mapping[str, int], now_seconds: float) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


ODD_ANSWERS = (
    RuntimeError("no idea"),
    MemoryError(),
    None,
    {},
    {"m": -1, "w": 4},
    {"m": 10**9, "w": 10**9},
    {"m": None, "w": "2"},
    {"m": float("nan"), "w": 2.0},
    {"x": 1},
)


@pytest.mark.parametrize("answer", ODD_ANSWERS, ids=str)
def test_an_elastic_policy_that_fails_costs_its_own_decision_only(answer: object) -> None:
    chosen: Policies = replace(policies(order="fifo"), elastic=Odd(answer))  # type: ignore[arg-type]
    made = Scheduler([a_node("n", 4)], chosen)
    for job in (running(elastic("m"), "n/0"), a_job("r").made):
        made.observe(job)
    decision = made.decide(LATER)
    assert set(decision.starts) == {"r"}
    assert decision.preemptions == {}
    failures = made.take_failures()
    assert [(each.stage, each.policy) for each in failures] == [("elastic", "Odd")]
    assert made.take_failures() == ()


@given(
    free=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    policy=st.sampled_from(["pollux", "bftrainer"]),
)
@settings(max_examples=examples(60), deadline=None)
def test_an_elastic_job_that_has_room_alone_starts(free: list[int], sizes: list[int], policy: str) -> None:
    """Whatever rigid jobs hold, some elastic job starts if one of them fits on idle GPUs."""
    nodes = [a_node(f"n{number}", 4) for number in range(len(free))]
    held = [f"{node.name}/{at}" for node, left in zip(nodes, free, strict=True) for at in range(left, 4)]
    rigid = [a_job("rigid").needs(len(held)).runs_on(*held).made] if held else []
    jobs = [elastic(f"m{number}", gpus_per_worker=size) for number, size in enumerate(sizes)]
    decision = scheduler(policy, nodes, *rigid, *jobs).decide(LATER)
    assert bool(decision.starts) is any(size <= max(free) for size in sizes)


def crowded(policy: str, *jobs: Job) -> Scheduler:
    """A cluster of four GPUs that rigid jobs hold, and more of them wait for."""
    rigid = [replace(a_job(f"r{at}").runs_on(f"n/{at}").made, as_of_seconds=0.0) for at in range(4)]
    waiting = [a_job(f"w{at}").waiting(since=500.0).made for at in range(8)]
    made = Scheduler([a_node("n", 4)], policies(elastic=policy))
    for job in (*rigid, *waiting, *jobs):
        made.observe(job)
    return made


@pytest.mark.parametrize("policy", ["pollux", "bftrainer"])
def test_an_elastic_job_does_not_starve_beside_rigid_ones(policy: str) -> None:
    """What it waits counts, and in the end it goes first, as any job does."""
    made = crowded(policy, replace(elastic("m"), waiting_since_seconds=0.0))
    plan = made.plan(LATER)
    assert plan.waiting["m"].code not in NOT_COMPETING
    late = LATER
    while late < 30 * 86_400:
        decision = made.decide(late)
        if any(each.preemptor == "m" for each in decision.preemptions.values()):
            break
        late += 3600.0
    else:
        pytest.fail("it never goes first")
    victim = next(each.job for each in decision.preemptions.values() if each.preemptor == "m")
    gpu = f"n/{victim[1:]}"
    made.forget(victim)
    assert len(made.decide(late + 60).starts["m"]) == 1
    waited = late + 60
    started = replace(running(elastic("m"), gpu), started_seconds=waited, as_of_seconds=waited)
    made.observe(replace(started, waited_before_seconds=waited))
    assert "m" not in made.decide(waited + 400).preemptions, "it runs for a quantum at least"
    assert "m" in made.decide(waited + 2 * 86_400).preemptions


@pytest.mark.parametrize("policy", ["pollux", "bftrainer"])
def test_an_elastic_job_of_a_higher_priority_goes_before_rigid_ones(policy: str) -> None:
    made = crowded(policy, replace(elastic("m"), priority=5))
    decision = made.decide(LATER)
    (victim,) = decision.preemptions.values()
    assert victim.preemptor == "m"
    made.forget(victim.job)
    assert len(made.decide(LATER + 60).starts["m"]) == 1
    made.observe(replace(running(elastic("m"), f"n/{victim.job[1:]}"), priority=5))
    assert "m" not in made.decide(LATER + 6000).preemptions


@pytest.mark.parametrize("policy", ["pollux", "bftrainer"])
def test_the_job_that_it_preempts_does_not_get_the_gpus_back(policy: str) -> None:
    made = scheduler(
        policy, [a_node("n", 1)], a_job("r").runs_on("n/0").made, replace(elastic("m"), priority=5)
    )
    assert made.decide(LATER).preemptions["r"].preemptor == "m"
    made.observe(a_job("r").made)
    assert set(made.decide(LATER + 60).starts) == {"m"}


@pytest.mark.parametrize("policy", ["pollux", "bftrainer"])
def test_jobs_grow_no_further_than_their_quota_allows_all_of_them(policy: str) -> None:
    """Else both would be stopped, and the second would wait for the first one's end."""
    jobs = [running(elastic(f"team/{name}", most=4), f"{name}/0", f"{name}/1") for name in "ab"]
    quota = {"admission": ("quota",), "admission_options": {"quota": {"limit_gpus": {"team": 6}}}}
    made = scheduler(policy, [a_node(name, 8) for name in "ab"], *jobs, **quota)
    assert made.decide(LATER).rescales == {"team/a": 4}
