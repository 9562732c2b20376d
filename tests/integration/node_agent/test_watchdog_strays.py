"""Processes on a GPU without a share of it: sidecars, other pods, and containers with shares of other GPUs."""

from __future__ import annotations

import os
import signal

import pytest

from tests.support.node_agent.node import eventually
from tests.support.node_agent.watched_processes import (
    IGNORES_SIGTERM,
    MakeNode,
    MakePod,
    driver_sees,
    ended,
    message,
    start,
    works,
)

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="pods' cgroups are root's, and so is the right to stop their processes"
)


def test_a_sidecar_and_a_pod_without_a_share_are_warned_and_stopped(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = start(make_node, graceSeconds=3600)
    pod, foreign = make_pod(), make_pod()
    container = node.container("a", 50, pod_uid=pod.uid).await_socket()
    trainer, sidecar = works(pod, container), works(pod, cgroup="sidecar")
    stranger = works(foreign, program=IGNORES_SIGTERM)
    driver_sees(node, **{f"p{trainer.pid}": 400, f"p{sidecar.pid}": 100, f"p{stranger.pid}": 200})
    said = f"another container without a share of {node.gpus[0]} holds 100.0 MiB of its memory; will be stopped after "
    eventually("the pod says so", lambda: f"{said}3600 s" in message(node, "a"))
    metric = f'laneway_gpu_foreign_processes{{gpu_uuid="{node.gpus[0]}",kind="pod",node="n1"}}'
    eventually("both count", lambda: f"{metric} 2.0" in node.get("/metrics"))
    assert (sidecar.poll(), stranger.poll()) == (None, None), "they have their grace"
    node.kill()
    node.config["watchdog"]["graceSeconds"] = 1
    node.start()
    assert ended(sidecar) == -signal.SIGTERM
    eventually("the other is told to end", lambda: f"pids=[{stranger.pid}]" in node.log)
    eventually("it counts until it does", lambda: f"{metric} 1.0" in node.get("/metrics"))
    driver_sees(node, **{f"p{trainer.pid}": 400})
    eventually("none is left", lambda: f"{metric} 0.0" in node.get("/metrics"))
    assert trainer.poll() is None
    assert node.session("a")["evicted"] == ""


def test_a_container_on_a_gpu_of_which_it_has_no_share_is_stopped(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = start(make_node)
    pod = make_pod()
    process = works(pod, node.container("a", 50, gpu=1, pod_uid=pod.uid).await_socket())
    driver_sees(node, **{f"p{process.pid}": 100})
    assert ended(process) == -signal.SIGTERM
    assert f"without a share of {node.gpus[0]}" in message(node, "a")


def test_foreign_processes_are_only_reported_where_the_configuration_says_so(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = start(make_node, foreignProcesses="Warn")
    pod = make_pod()
    greedy = works(pod, node.container("a", 50, pod_uid=pod.uid).await_socket())
    sidecar = works(pod, cgroup="sidecar")
    driver_sees(node, **{f"p{greedy.pid}": 600, f"p{sidecar.pid}": 100})
    assert ended(greedy) == -signal.SIGTERM, "the quota still holds"
    assert "not stopped (watchdog.foreignProcesses" in message(node, "a")
    assert sidecar.poll() is None


def test_processes_on_instances_of_a_gpu_in_mig_mode_are_only_reported(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = start(make_node)
    pod = make_pod()
    greedy = works(pod, node.container("a", 50, pod_uid=pod.uid).await_socket())
    sidecar = works(pod, cgroup="sidecar")
    driver_sees(node, mig=True, **{f"p{greedy.pid}": 600, f"p{sidecar.pid}": 100})
    assert ended(greedy) == -signal.SIGTERM, "the quota still holds"
    assert "not stopped: MIG mode is on" in message(node, "a")
    assert sidecar.poll() is None
    driver_sees(node, **{f"p{sidecar.pid}": 100})
    assert ended(sidecar) == -signal.SIGTERM, "nobody else gives the GPU away any more"
