"""A real agent, and processes in pods' cgroups that hold more of a simulated GPU than their quota."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hack.cluster import cgroups
from tests.support.node_agent.node import eventually
from tests.support.node_agent.watched_processes import (
    IGNORES_SIGTERM,
    WORKS,
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


@pytest.fixture
def of_the_host() -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Start a process in a cgroup of no pod."""
    path = f"laneway-test-host-{os.getpid()}"
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        cgroups.ensure(path)
        script = f'{cgroups.join_script(path)} && exec "$@"'
        command = ["sh", "-c", script, "sh", sys.executable, "-c", WORKS]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout is not None
        assert started[-1].stdout.readline() == "ready\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    cgroups.kill(path)
    cgroups.remove(path)


def test_only_the_violating_container_without_a_client_is_stopped(
    make_node: MakeNode, make_pod: MakePod, of_the_host: Callable[[], subprocess.Popen[str]]
) -> None:
    node = start(make_node)
    greedy, modest = make_pod(), make_pod()
    container = node.container("greedy", 50, pod_uid=greedy.uid).await_socket()
    other = node.container("modest", 50, pod_uid=modest.uid).await_socket()
    over, within, stranger = works(greedy, container), works(modest, other), of_the_host()
    driver_sees(node, **{f"p{over.pid}": 600, f"p{within.pid}": 500, f"p{stranger.pid}": 900})

    assert ended(over) == -signal.SIGTERM
    session = node.session("greedy")
    assert session["evicted"] == "MemoryQuotaExceeded"
    text = (
        "stopped by the node agent after 1 s of grace: its process holds 600.0 MiB of GPU memory as the driver reports, "
        "more than its quota of 500.0 MiB"
    )
    assert text in session["message"]
    assert f"pod=default/greedy reason=MemoryQuotaExceeded message={text!r}" in node.log
    assert (within.poll(), stranger.poll()) == (None, None)
    assert node.session("modest")["message"] == ""
    report = f"process in no pod uses the GPU gpu={node.gpus[0]} pid={stranger.pid} command='python"
    assert node.log.count(report) == 1
    assert "memory='900.0 MiB'" in node.log

    page = node.get("/metrics")
    assert f'laneway_gpu_foreign_processes{{gpu_uuid="{node.gpus[0]}",kind="host",node="n1"}} 1.0' in page
    labels = f'gpu_uuid="{node.gpus[0]}",namespace="default",node="n1",reason='
    assert f'laneway_watchdog_evictions_total{{{labels}"MemoryQuotaExceeded"}} 1.0' in page
    assert f'laneway_watchdog_evictions_total{{{labels}"MemoryNotCovered"}} 0.0' in page

    container.remove()
    eventually("it has ended", lambda: node.session("greedy")["state"] == "Ended")
    assert text in message(node, "greedy")


def test_a_process_that_ignores_sigterm_is_killed(make_node: MakeNode, make_pod: MakePod) -> None:
    node = start(make_node, killSeconds=1)
    pod = make_pod()
    container = node.container("stubborn", 50, pod_uid=pod.uid).await_socket()
    process = works(pod, container, IGNORES_SIGTERM)
    driver_sees(node, **{f"p{process.pid}": 600})
    assert ended(process) == -signal.SIGKILL
    assert f"pids=[{process.pid}]" in node.log


def is_running(pid: int) -> bool:
    """Return whether a process has not ended; one that its parent has not waited for has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def pid_in(path: Path, but: int) -> int:
    """Wait until a program has written the pid of its next child; returns it."""
    eventually("the next child runs", lambda: path.exists() and int(path.read_text() or but) != but)
    return int(path.read_text())


def test_a_supervisor_whose_children_follow_one_another_is_stopped_with_its_whole_container(
    make_node: MakeNode, make_pod: MakePod, tmp_path: Path
) -> None:
    node, pod, child = start(make_node, killSeconds=1), make_pod(), tmp_path / "child"
    container = node.container("supervised", 50, pod_uid=pod.uid).await_socket()
    supervisor = works(
        pod,
        container,
        "import os, subprocess, sys\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        f"    child = subprocess.Popen([sys.executable, '-c', {IGNORES_SIGTERM!r}], stdout=subprocess.PIPE)\n"
        "    child.stdout.readline()\n"
        f"    open({str(child)!r} + '.new', 'w').write(str(child.pid))\n"
        f"    os.rename({str(child)!r} + '.new', {str(child)!r})\n"
        "    child.wait()\n",
    )
    bystander = works(pod, cgroup="sidecar")
    followed = 0
    for _ in range(3):
        assert supervisor.poll() is None, "the processes on the GPU are stopped first"
        followed = pid_in(child, followed)
        driver_sees(node, **{f"p{followed}": 600})
        eventually("it is stopped", lambda pid=followed: not is_running(pid))
    assert ended(supervisor) == -signal.SIGKILL
    assert bystander.poll() is None, "it is in another container of the pod"
    assert node.log.count("sending SIGTERM") == 1
    assert "with all processes of its container because it started others after each stop" in message(
        node, "supervised"
    )


def test_a_process_that_a_stopped_one_starts_in_its_place_is_killed_with_it(
    make_node: MakeNode, make_pod: MakePod, tmp_path: Path
) -> None:
    node, pod, child = start(make_node, killSeconds=15), make_pod(), tmp_path / "child"
    container = node.container("forks", 50, pod_uid=pod.uid).await_socket()
    process = works(
        pod,
        container,
        "import os, signal, time\n"
        "def fork(*_):\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    pid = os.fork()\n"
        f"    pid and open({str(child)!r}, 'w').write(str(pid))\n"
        "signal.signal(signal.SIGTERM, fork)\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(1)\n",
    )
    driver_sees(node, **{f"p{process.pid}": 600})
    second = pid_in(child, 0)
    driver_sees(node, **{f"p{process.pid}": 600, f"p{second}": 600})
    assert ended(process) == -signal.SIGKILL
    eventually("its child too", lambda: not is_running(second))
    pids = sorted((process.pid, second))
    assert f"sending SIGKILL container=default/forks/trainer pids={pids}" in node.log


def test_compliance_withdraws_the_warning(make_node: MakeNode, make_pod: MakePod) -> None:
    node = start(make_node, graceSeconds=3600)
    pod = make_pod()
    container = node.container("sorry", 50, pod_uid=pod.uid).await_socket()
    process = works(pod, container)
    driver_sees(node, **{f"p{process.pid}": 600})
    eventually("it is warned", lambda: "stopped after 3600 s" in message(node, "sorry"))
    driver_sees(node, **{f"p{process.pid}": 510})
    eventually("the warning is withdrawn", lambda: message(node, "sorry") == "")
    assert process.poll() is None


def test_a_connected_process_that_holds_more_than_it_may_is_stopped(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = start(make_node)
    pod = make_pod()
    container = node.container("liar", 50, pod_uid=pod.uid)
    process = connect(container, pod)
    eventually("the watchdog holds it", lambda: node.session("liar")["enforcement"] == "Watchdog")
    process.do("write", word=11, value=10 << 20)
    driver_sees(node, **{f"p{process.pid}": 600})
    eventually("it is stopped", lambda: node.session("liar")["processes"] == [])
    assert node.session("liar")["evicted"] == "MemoryQuotaExceeded"


def test_a_process_that_is_not_in_the_pods_cgroup_is_never_stopped(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = start(make_node)
    pod, other = make_pod(), make_pod()
    process = connect(node.container("a", 50, pod_uid=pod.uid), pod)
    other.take(process)
    driver_sees(node, **{f"p{process.pid}": 600})
    refusal = f"that failed: process {process.pid} is not in a cgroup of pod {pod.uid}"
    eventually("it is refused", lambda: refusal in message(node, "a"))
    assert process.do("read", word=11) == {"value": 0}, "it lives"


def test_only_the_container_over_its_quota_of_a_pod_is_stopped(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = start(make_node)
    pod = make_pod()
    greedy = node.container("pod", 40, pod_uid=pod.uid)
    greedy.write(container="greedy")
    modest = node.container("pod", 40, pod_uid=pod.uid)
    modest.write(container="modest")
    over, within = greedy.await_socket().process(), modest.await_socket().process()
    for process in (over, within):
        pod.take(process)
    driver_sees(node, **{f"p{over.pid}": 500, f"p{within.pid}": 400})

    def evicted() -> dict[str, str]:
        return {each["container"]: each["evicted"] for each in node.get("/sessions")}

    eventually("one is stopped", lambda: evicted() == {"greedy": "MemoryQuotaExceeded", "modest": ""})
    eventually("it ends", lambda: f"pids=[{over.pid}]" in node.log)
    assert within.do("connect") == {}
