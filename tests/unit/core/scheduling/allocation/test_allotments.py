"""What a scheduler's decisions allot: never more CPUs than a node has, never less than a job is owed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling import HostResources, JobState, Node, Scheduler, policies
from laneway.scheduling.model.sensitivity import MeasuredSensitivity
from laneway.scheduling.model.snapshot import Demand, Job

from tests.support.property_examples import examples
from tests.unit.core.scheduling.builders import a_node

GIB = 2**30
POLICIES = ("proportional", "greedy", "tune", "optimal")


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    return [
        replace(
            a_node(f"n{number}", draw(st.integers(1, 4))),
            host=HostResources.of({"cpu": draw(st.integers(100, 64_000)), "memory": 64 * GIB, "pods": 20}),
        )
        for number in range(draw(st.integers(1, 3)))
    ]


@st.composite
def jobs(draw: st.DrawFn) -> list[Job]:
    found = []
    for number in range(draw(st.integers(1, 8))):
        cpus = draw(st.integers(0, 16_000))
        points = draw(st.dictionaries(st.integers(100, 32_000), st.floats(0.1, 10), max_size=3))
        found.append(
            Job(
                f"j{number}",
                Demand(
                    workers=draw(st.integers(1, 3)),
                    share_percent=draw(st.sampled_from([20, 50, 100])),
                    requests=HostResources.of({"cpu": cpus, "memory": GIB, "pods": 1}),
                ),
                created_seconds=float(number),
                cpu_floor_millis=draw(st.one_of(st.none(), st.integers(0, cpus))),
                sensitivity=MeasuredSensitivity.from_throughputs({(c, 1): t for c, t in points.items()})
                if points
                else None,
            )
        )
    return found


@given(nodes=nodes(), jobs=jobs(), policy=st.sampled_from(POLICIES), spare=st.sampled_from([0, 10, 100]))
@settings(max_examples=examples(60), deadline=None)
def test_whatever_starts_runs_or_pauses(nodes: list[Node], jobs: list[Job], policy: str, spare: int) -> None:
    made = Scheduler(nodes, replace(policies(order="fifo", allocation=policy), spare_cpu_percent=spare))
    offered = {node.name: node.host.of_resource("cpu") for node in nodes if node.host is not None}
    placed: dict[str, Job] = {}
    for number, job in enumerate(jobs):
        made.observe(job)
        decision = made.decide(float(number))
        given_on = dict.fromkeys(offered, 0)
        allotted = made.allotments(decision)
        starting = {
            key: replace(jobs[int(key[1:])], placement=where, state=JobState.STARTING)
            for key, where in decision.starts.items()
        }
        for key, each in {**placed, **starting}.items():
            request = each.demand.requests.of_resource("cpu")
            floor = request if each.cpu_floor_millis is None else each.cpu_floor_millis
            pauses = each.state is JobState.PAUSING
            assert (key not in allotted) == pauses
            for worker in each.placement:
                has = request if pauses else allotted[key][worker.worker].cpu_millis
                assert has >= floor
                given_on[worker.node] += has
        assert all(given_on[name] <= offered[name] for name in offered)
        for key, each in starting.items():
            state = JobState.PAUSING if int(key[1:]) % 3 == 2 else JobState.RUNNING
            placed[key] = replace(each, state=state)
            made.observe(placed[key])


@pytest.mark.parametrize("percent", [100, 800], ids=["off", "lanes"])
def test_a_worker_alone_on_its_gpu_has_that_gpus_part_of_the_cpus_with_shared_gpus_too(percent: int) -> None:
    host = HostResources.of({"cpu": 32_000, "memory": 64 * GIB, "pods": 20})
    node = replace(a_node("n1", 2, percent=percent), host=host)
    made = Scheduler([node], policies(order="fifo", allocation="proportional"))
    made.observe(
        Job(
            "a",
            Demand(share_percent=100, requests=HostResources.of({"cpu": 1000, "memory": GIB, "pods": 1})),
            created_seconds=0.0,
        )
    )
    (allotted,) = made.allotments(made.decide(0.0))["a"]
    assert allotted.cpu_millis == 16_000, "one of two GPUs"
