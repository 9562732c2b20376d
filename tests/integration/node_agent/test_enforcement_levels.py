"""The level of enforcement that the agent publishes, and what it stops for a pod that demands one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.node_agent import account_client
from tests.support.node_agent.node import Node, eventually
from tests.support.node_agent.watched_processes import (
    QUICK,
    MakeNode,
    MakePod,
    driver_sees,
    ended,
    gpu,
    message,
    start,
    works,
)

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="pods' cgroups are root's, and so is the right to stop their processes"
)

ACCOUNT_CLIENT = Path(account_client.__file__)


def test_the_level_is_published_for_each_gpu_and_container(make_node: MakeNode, make_pod: MakePod) -> None:
    node = make_node(health=QUICK, enforcement={"level": "MPS"}).start()
    node.container("known", 10, pod_uid=make_pod().uid, minimum_enforcement="MPS").await_socket()
    node.container("nameless", 10).await_socket()
    eventually("the watchdog holds", lambda: gpu(node)["enforcement"] == "Watchdog")
    missing = f"{node.root}/var/lib/laneway/client/liblaneway-interposer.so does not exist; it comes with the client's image"
    assert gpu(node)["enforcement_reason"] == f"no MPS: a simulated GPU has no MPS; no interposer: {missing}"
    eventually("of a container too", lambda: node.session("known")["enforcement"] == "Watchdog")
    assert node.session("nameless")["enforcement"] == "None", "nobody can tell its processes from others'"
    said = "it demands the enforcement 'MPS', and 'Watchdog' is in force on its GPU: no MPS: a simulated GPU has no MPS"
    assert message(node, "known") == f"{said}; no interposer: {missing}"


def interposes(make_node: MakeNode) -> Node:
    """Start a node with the interposer's files."""
    watchdog = {"graceSeconds": 1, "killSeconds": 600}
    node = make_node(health=QUICK, enforcement={"level": "Interposer"}, watchdog=watchdog)
    client = node.root / "var/lib/laneway/client"
    client.mkdir(parents=True)
    for name in ("liblaneway-interposer.so", "ld.so.preload"):
        (client / name).touch()
    node.start()
    eventually("the level is in force", lambda: gpu(node)["enforcement"] == "Interposer")
    assert gpu(node)["interposer"] is True
    return node


def test_a_session_has_the_level_interposer_while_each_of_its_processes_keeps_an_account(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node, pod = interposes(make_node), make_pod()
    container = node.container("a", 50, pod_uid=pod.uid).await_socket()
    process = container.process(ACCOUNT_CLIENT)
    pod.take(process)
    assert process.do("open") == {}
    driver_sees(node, **{f"p{process.pid}": 100})
    eventually("it is held", lambda: node.session("a")["enforcement"] == "Interposer")
    second = works(pod, container)
    driver_sees(node, **{f"p{process.pid}": 100, f"p{second.pid}": 1})
    eventually("one is not", lambda: node.session("a")["enforcement"] == "Watchdog")
    assert message(node, "a") == "", "its pod demands no level"


def test_memory_without_the_interposer_is_stopped_where_the_pod_demands_it(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node, (static, loaded, lenient, early) = interposes(make_node), [make_pod() for _ in range(4)]
    of_static, of_lenient, of_early = (
        node.container(
            name, 20, pod_uid=pod.uid, minimum_enforcement=minimum, interposer=mounted
        ).await_socket()
        for name, pod, minimum, mounted in (
            ("static", static, "Interposer", True),
            ("lenient", lenient, "Watchdog", True),
            ("early", early, "Interposer", False),
        )
    )
    container = node.container(
        "loaded", 20, pod_uid=loaded.uid, minimum_enforcement="Interposer", interposer=True
    )
    keeper = container.await_socket().process(ACCOUNT_CLIENT)
    loaded.take(keeper)
    assert keeper.do("open") == {}
    outside, allowed, unloaded = works(static, of_static), works(lenient, of_lenient), works(early, of_early)
    driver_sees(node, **{f"p{process.pid}": 20 for process in (outside, keeper, allowed, unloaded)})

    assert ended(outside) == -signal.SIGTERM
    session = node.session("static")
    assert session["evicted"] == "InterposerNotLoaded"
    assert (
        "stopped by the node agent after 1 s of grace: a process holds 20.0 MiB of GPU memory without the memory "
        "interposer, and the pod demands the enforcement 'Interposer'"
    ) in session["message"]
    assert allowed.poll() is None
    assert unloaded.poll() is None, "it was allocated before the node had the library"
    assert keeper.do("ask", kind=4, gpu=node.gpus[0])["status"] == 0, "it lives"
    assert [node.session(name)["evicted"] for name in ("loaded", "lenient", "early")] == ["", "", ""]


def test_a_watchdog_that_only_warns_counts_as_none(make_node: MakeNode, make_pod: MakePod) -> None:
    node = start(make_node, action="Warn", graceSeconds=0)
    pod = make_pod()
    container = node.container("a", 50, pod_uid=pod.uid).await_socket()
    process = works(pod, container)
    driver_sees(node, **{f"p{process.pid}": 600})
    wanted = "more than its quota of 500.0 MiB; no process is stopped (watchdog.action: Warn)"
    eventually("it is warned", lambda: wanted in message(node, "a"))
    assert gpu(node)["enforcement"] == "Cooperative"
    assert gpu(node)["enforcement_reason"] == "no watchdog: watchdog.action is Warn, so no process is stopped"
    assert node.session("a")["enforcement"] == "None"
    assert process.poll() is None
