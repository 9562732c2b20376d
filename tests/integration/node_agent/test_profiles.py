"""Profile first: a real agent, records as the device plugin writes them, and processes that measure themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laneway.api.template_profile import TemplateProfile

from tests.support.node_agent.node import Node, PeerProcess, eventually

MakeNode = Callable[..., Node]
MIB = 1 << 20
KNOWN = TemplateProfile(
    persistent_bytes=100 * MIB,
    ephemeral_bytes=250 * MIB,
    iteration_seconds=0.2,
    iteration_seconds_spread=0.01,
)


def session_of(node: Node, pod: str) -> dict[str, Any]:
    return eventually(f"{pod} is known", lambda: [s for s in node.get("/sessions") if s["pod"] == pod])[0]  # type: ignore[no-any-return]


def connected(node: Node, pod: str, percent: int, **fields: Any) -> PeerProcess:
    process = node.container(pod, percent, **fields).await_socket().process()
    process.hello()
    return process


def test_unknown_jobs_start_one_after_the_other_and_known_ones_side_by_side(make_node: MakeNode) -> None:
    node = make_node(lanes={"paddingPercent": 0}).start()
    for pod in ("a", "b"):
        connected(node, pod, 80)
    assert session_of(node, "a")["lane"] == 0
    waiting = session_of(node, "b")
    assert waiting["lane"] is None, "80 % and 80 % do not fit, and nothing is known of either"
    assert "a counts with the full share until profiled" in waiting["message"]
    for pod in ("c", "d"):
        connected(node, pod, 80, gpu=1, profile=KNOWN)
    assert {session_of(node, pod)["lane"] for pod in ("c", "d")} == {0, 1}
    assert session_of(node, "c")["sizes"] is None, "what is known of the template was not measured of it"


def test_the_first_profile_of_an_unknown_job_admits_others(make_node: MakeNode) -> None:
    node = make_node(lanes={"paddingPercent": 0}).start()
    first = connected(node, "a", 80)
    connected(node, "b", 80)
    first.turn()
    first.profile(50, 100)
    eventually("b has a lane", lambda: session_of(node, "b")["lane"] is not None)


def test_a_welcome_has_the_profile_of_the_template(make_node: MakeNode) -> None:
    node = make_node().start()
    process = node.container("a", 50, profile=KNOWN).await_socket().process()
    profile = process.hello()["profile"]
    assert profile["persistent_bytes"] == KNOWN.persistent_bytes
    assert profile["ephemeral_bytes"] == KNOWN.ephemeral_bytes
    assert profile["iteration_seconds_spread"] == 0.01


def test_a_measured_profile_serves_jobs_of_its_template_in_its_own_namespace_only(
    make_node: MakeNode,
) -> None:
    node = make_node().start()
    measured = connected(node, "measured", 30, namespace="team-a", template_hash="t-1")
    measured.turn()
    measured.profile(10, 20)
    eventually("it is measured", lambda: session_of(node, "measured")["sizes"] is not None)
    profiles = {
        namespace: node.container(pod, 30, namespace=namespace, template_hash="t-1")
        .await_socket()
        .process()
        .hello()["profile"]
        for pod, namespace in (("same", "team-a"), ("other", "team-b"))
    }
    assert profiles["team-a"]["persistent_bytes"] == 10 * MIB
    assert profiles["team-b"] is None, "another namespace's figures say nothing of this job"


def test_growth_beyond_the_template_is_applied(make_node: MakeNode) -> None:
    node = make_node(lanes={"paddingPercent": 0}).start()
    small, grows = (connected(node, pod, 90, profile=KNOWN) for pod in ("small", "grows"))
    assert session_of(node, "small")["lane"] != session_of(node, "grows")["lane"]
    grows.turn()
    grows.profile(100, 700)
    eventually(
        "they take turns", lambda: session_of(node, "small")["lane"] == session_of(node, "grows")["lane"]
    )
    small.send("request")
    grows.expect("yield")


def test_spread_and_remaining_time_are_reported_and_survive_the_agent(make_node: MakeNode) -> None:
    node = make_node().start()
    process = connected(node, "a", 50)
    process.turn()
    process.send(
        "profile",
        persistent_bytes=10 * MIB,
        ephemeral_bytes=20 * MIB,
        framework_bytes=0,
        iteration_seconds=0.5,
        iteration_seconds_spread=0.25,
        remaining_seconds=90.0,
        iterations=7,
        largest_tensor_bytes=MIB,
        model_bytes=2 * MIB,
    )
    sizes = eventually("it is measured", lambda: session_of(node, "a")["sizes"])
    assert (sizes["iteration_seconds"], sizes["iteration_seconds_spread"], sizes["remaining_seconds"]) == (
        0.5,
        0.25,
        90.0,
    )
    node.terminate()
    node.start()
    assert session_of(node, "a")["sizes"] == sizes


def test_a_welcome_on_a_real_gpu_has_the_framework_reserve(make_node: MakeNode) -> None:
    node = make_node(lanes={"frameworkMebibytes": 100, "paddingPercent": 0}).start()
    container = node.container("a", 50).await_socket()
    assert container.process().hello()["framework_bytes"] == 0
    process = container.process()
    assert process.hello(device="cuda")["framework_bytes"] == 100 * MIB
    process.turn()
    process.profile(10, 20)
    counted = f'laneway_gpu_memory_bytes{{gpu_uuid="{node.gpus[0]}",kind="free",node="n1"}}'

    def free_mib() -> float:
        (line,) = [line for line in node.get("/metrics").splitlines() if line.startswith(counted)]
        return float(line.split()[-1]) / MIB

    eventually("the reserve counts", lambda: free_mib() == 1000 - 130)
