"""The grace of a container above its quota: what spends it, what ends it, and that nothing renews it."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest

from tests.support.node_agent.node import Container, Node, eventually
from tests.support.node_agent.watched_processes import (
    QUICK,
    MakeNode,
    MakePod,
    connect,
    driver_sees,
    ended,
    message,
    start,
    works,
)

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="pods' cgroups are root's, and so is the right to stop their processes"
)


def test_time_within_the_quota_buys_little_time_over_it(make_node: MakeNode, make_pod: MakePod) -> None:
    node = start(make_node, graceSeconds=4)
    pod = make_pod()
    process = works(pod, node.container("sly", 50, pod_uid=pod.uid).await_socket())
    for mebibytes in (600, 400) * 20:
        driver_sees(node, **{f"p{process.pid}": mebibytes})
        expected = mebibytes > 525
        eventually(
            "the reading counts or the process has ended",
            lambda wanted=expected: (
                ("will be stopped" in message(node, "sly")) is wanted or node.session("sly")["evicted"]
            ),
        )
        if node.session("sly")["evicted"]:
            break
    assert node.session("sly")["evicted"] == "MemoryQuotaExceeded"
    driver_sees(node, **{f"p{process.pid}": 400})
    assert ended(process) == -signal.SIGTERM


def spent_before(node: Node, container: Container, seconds: int) -> None:
    """Say that an earlier agent saw a container spend grace."""
    record = container.record
    saved = {
        "gpu": node.gpus[0],
        "key": record.key,
        "pod_uid": record.pod_uid,
        "cgroup": "c1",
        "spent_seconds": seconds,
    }
    folder = node.root / "var/lib/laneway/agent"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "grace.json").write_text(json.dumps({"version": 1, "spent": [saved]}))


def test_a_container_has_no_new_grace_after_a_crash_of_the_agent(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = start(make_node, graceSeconds=3600)
    pod = make_pod()
    container = node.container("a", 50, pod_uid=pod.uid).await_socket()
    process = works(pod, container)
    driver_sees(node, **{f"p{process.pid}": 600})
    saved = node.root / "var/lib/laneway/agent/grace.json"

    def spent() -> tuple[Any, ...]:
        spent = json.loads(saved.read_text())["spent"] if saved.exists() else ()
        return tuple((each["key"], each["cgroup"]) for each in spent if each["spent_seconds"] >= 2)

    eventually("grace is spent", lambda: spent() == ((container.record.key, "c1"),))
    node.kill()
    spent_before(node, container, 3599)
    node.start()
    assert ended(process) == -signal.SIGTERM


def test_processes_that_follow_in_a_container_have_no_new_grace_and_a_new_container_has(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = make_node(health=QUICK, watchdog={"graceSeconds": 3600})
    pod = make_pod()
    container = node.container("a", 50, pod_uid=pod.uid)
    spent_before(node, container, 3599)
    node.start()
    container.await_socket()
    for sent in (signal.SIGTERM, signal.SIGKILL):
        process = works(pod, container)
        driver_sees(node, **{f"p{process.pid}": 600})
        assert ended(process) == -sent, "it has no grace left"
    process = works(pod, container, cgroup="c2")
    driver_sees(node, **{f"p{process.pid}": 600})
    eventually("it is only warned", lambda: node.session("a")["evicted"] == "")
    eventually("of its own grace", lambda: "will be stopped after 3600 s" in message(node, "a"))
    assert process.poll() is None


def test_another_container_of_the_pod_that_shows_the_same_folder_has_no_grace_of_its_own(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = make_node(health=QUICK, watchdog={"graceSeconds": 3600})
    pod = make_pod()
    container = node.container("a", 50, pod_uid=pod.uid)
    spent_before(node, container, 3599)
    node.start()
    container.await_socket()
    trainer, sidecar = works(pod, container, cgroup="c1"), works(pod, container, cgroup="c2")
    driver_sees(node, **{f"p{sidecar.pid}": 600})
    assert ended(sidecar) == -signal.SIGTERM, "the trainer, whose grace was spent, has not ended"
    assert trainer.poll() is None


def test_a_neighbours_failed_allocation_ends_the_grace(make_node: MakeNode, make_pod: MakePod) -> None:
    node = start(make_node, graceSeconds=3600)
    greedy, honest = make_pod(), make_pod()
    over = works(greedy, node.container("greedy", 50, pod_uid=greedy.uid).await_socket())
    victim = connect(node.container("honest", 50, pod_uid=honest.uid), honest)
    driver_sees(node, **{f"p{over.pid}": 600})
    eventually("it is warned", lambda: "stopped after 3600 s" in message(node, "greedy"))
    sizes = {"used_bytes": 450 << 20, "quota_bytes": 500 << 20}
    victim.send("overrun", message="out of GPU memory", device_full=True, **sizes)
    assert ended(over) == -signal.SIGTERM
    assert "stopped by the node agent because another container lacks the memory" in message(node, "greedy")
    assert "found the GPU full: needs 450.0 MiB: out of GPU memory" in message(node, "honest")
    assert victim.do("read", word=11) == {"value": 0}, "it lives"


def test_a_neighbour_whose_quota_is_free_ends_nobodys_grace(make_node: MakeNode, make_pod: MakePod) -> None:
    """It says that it found the GPU full, and the driver shows that it did not."""
    node = start(make_node, graceSeconds=3600)
    over_quota, hostile = make_pod(), make_pod()
    over = works(over_quota, node.container("over", 50, pod_uid=over_quota.uid).await_socket())
    liar = connect(node.container("liar", 20, pod_uid=hostile.uid), hostile)
    driver_sees(node, **{f"p{over.pid}": 600})
    eventually("it is warned", lambda: "stopped after 3600 s" in message(node, "over"))
    sizes = {"used_bytes": 150 << 20, "quota_bytes": 200 << 20}
    liar.send("overrun", message="out of GPU memory", device_full=True, **sizes)
    eventually("it is heard", lambda: "found the GPU full" in message(node, "liar"))
    driver_sees(node, **{f"p{over.pid}": 610})
    eventually("the driver was read since then", lambda: "610.0 MiB" in message(node, "over"))
    assert "another container lacks the memory" not in message(node, "over"), "it keeps its grace"
    assert over.poll() is None
    driver_sees(node, **{f"p{over.pid}": 850})
    liar.send("overrun", message="out of GPU memory", device_full=True, **sizes)
    assert ended(over) == -signal.SIGTERM, "now its quota is not free"
