"""What pods request of their nodes, and failed nodes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from laneway.scheduling import Demand, HostResources, Node, WorkerPlacement
from laneway.scheduling.model.host_resources import CPU
from laneway.simulator import TraceJob, make_nodes
from laneway.simulator.nodes import Nodes

CPUS = 16


def two_nodes() -> tuple[Node, ...]:
    return tuple(replace(node, host=HostResources.of({CPU: CPUS})) for node in make_nodes("2x4"))


def a_gang(name: str, workers: int, cpus: int, unseen: int = 0) -> TraceJob:
    demand = Demand(workers, requests=HostResources.of({CPU: cpus}))
    return TraceJob(name, demand, 0.0, 1.0, unseen_requests=HostResources.of({CPU: unseen}))


def on(nodes: list[str]) -> list[WorkerPlacement]:
    return [WorkerPlacement(rank, node, (f"{node}-{rank}",), 100) for rank, node in enumerate(nodes)]


gangs = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["n0000", "n0001"]), min_size=1, max_size=4),
        st.integers(0, 6),
        st.integers(0, 6),
        st.booleans(),
    ),
    max_size=12,
)


@given(gangs)
def test_a_node_never_holds_more_than_it_has_and_gets_all_back(
    rows: list[tuple[list[str], int, int, bool]],
) -> None:
    nodes = Nodes(two_nodes())
    held: dict[str, tuple[TraceJob, list[str]]] = {}
    for number, (where, cpus, unseen, leaves) in enumerate(rows):
        job = a_gang(f"ns/{number}", len(where), cpus, unseen)
        used = {
            name: sum(
                each.pod_requests.of_resource(CPU) * on_nodes.count(name) for each, on_nodes in held.values()
            )
            for name in ("n0000", "n0001")
        }
        wanted = {name: job.pod_requests.of_resource(CPU) * where.count(name) for name in used}
        refused = nodes.bind(job, on(where))
        assert refused == {name for name in used if wanted[name] and used[name] + wanted[name] > CPUS}
        if refused or leaves:
            nodes.remove(job)
        else:
            held[job.key] = (job, where)
    for job, _ in held.values():
        nodes.remove(job)
    known = nodes.take_changed()
    assert known is None or tuple(known) == two_nodes()


def test_the_scheduler_learns_of_a_sidecar_once_it_runs() -> None:
    nodes = Nodes(two_nodes())
    job = a_gang("ns/a", 1, 2, unseen=3)
    nodes.bind(job, on(["n0001"]))
    known = nodes.take_changed()
    assert known is not None
    assert [node.host for node in known] == [HostResources.of({CPU: CPUS}), HostResources.of({CPU: CPUS - 3})]
    assert nodes.take_changed() is None
    assert nodes.remove(job) == ["n0001"]


def test_a_failed_node_is_known_to_be_so_when_it_is_not_ready() -> None:
    nodes = Nodes(two_nodes())
    nodes.fail("n0001", 100.0)
    assert nodes.take_changed() is None
    assert nodes.down(on(["n0000", "n0001"])) == ["n0001"]
    assert nodes.down_seconds(on(["n0000", "n0001"]), 40.0) == 60.0
    nodes.miss("n0001")
    known = nodes.take_changed()
    assert known is not None
    assert [node.schedulable for node in known] == [True, False]
    nodes.come_back("n0001")
    nodes.miss("n0001")
    assert tuple(nodes.take_changed() or ()) == two_nodes()
