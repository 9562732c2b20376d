"""A real agent, and processes in pods' cgroups that hold more of a simulated GPU than their quota."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.cluster import cgroups
from tests.support.node_agent import account_client
from tests.support.node_agent.node import Container, Node, eventually
from tests.support.node_agent.pod_cgroup import PodCgroup

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="pods' cgroups are root's, and so is the right to stop their processes"
)

MakeNode = Callable[..., Node]
MakePod = Callable[[], PodCgroup]
QUICK = {"probeSeconds": 1}
ACCOUNT_CLIENT = Path(account_client.__file__)
WORKS = "import time; print('ready', flush=True); time.sleep(600)"
IGNORES_SIGTERM = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WORKS}"


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


def start(make_node: MakeNode, **watchdog: Any) -> Node:
    node = make_node(health=QUICK, watchdog={"graceSeconds": 1, "killSeconds": 600, **watchdog})
    return node.start()


def works(
    pod: PodCgroup, container: Container | None = None, program: str = WORKS, cgroup: str = "c1"
) -> subprocess.Popen[str]:
    """Start a process that no client is in, in a container of a pod, or in one without a share."""
    return pod.run([sys.executable, "-c", program], container, cgroup)


def driver_sees(node: Node, *, mig: bool = False, **mebibytes: int) -> None:
    """Say what the driver sees: ``p<pid>=mebibytes``, on the first GPU, and whether it is in MIG mode."""
    sizes = {int(pid[1:]): f"{size}Mi" for pid, size in mebibytes.items()}
    path = node.root / "run/laneway/simulated-faults.yaml"
    temporary = path.with_name("faults.new")
    temporary.write_text(json.dumps({"gpus": [{"gpu": 0, "processes": sizes, "mig": mig}]}))
    temporary.rename(path)


def message(node: Node, pod: str) -> str:
    return str(node.session(pod)["message"])


def gpu(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((node.root / "run/laneway/inventory.json").read_text())["gpus"][0]
    return found


def ended(process: subprocess.Popen[str]) -> int:
    """Wait for a process's end; returns how it ended."""
    eventually("it has ended", lambda: process.poll() is not None, 40)
    assert process.returncode is not None
    return process.returncode


def is_running(pid: int) -> bool:
    """Return whether a process has not ended; one that its parent has not waited for has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


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

    assert f'laneway_gpu_foreign_processes{{gpu="{node.gpus[0]}",kind="host",node="n1"}} 1.0' in node.get(
        "/metrics"
    )

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
        eventually("it is stopped", lambda pid=followed: not is_running(pid), 40)
    assert ended(supervisor) == -signal.SIGKILL
    assert bystander.poll() is None, "it is in another container of the pod"
    assert node.log.count("sending SIGTERM") == 1
    assert "with all processes of its container because it started others after each stop" in message(
        node, "supervised"
    )


def test_a_process_that_a_stopped_one_starts_in_its_place_is_killed_with_it(
    make_node: MakeNode, make_pod: MakePod, tmp_path: Path
) -> None:
    node, pod, child = start(make_node, killSeconds=8), make_pod(), tmp_path / "child"
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


def connect(container: Container, pod: PodCgroup) -> Any:
    process = container.await_socket().process()
    pod.take(process)
    process.hello()
    return process


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
    eventually("it is stopped", lambda: node.session("liar")["processes"] == [], 40)
    assert node.session("liar")["evicted"] == "MemoryQuotaExceeded"


def test_a_revoked_holder_that_keeps_its_lane_is_stopped_and_the_lane_goes_on(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = make_node(
        health=QUICK,
        lanes={"maxPerGpu": 1},
        turns={"timeoutSeconds": 1, "firstIterationSeconds": 2, "quantumMilliseconds": 10},
        watchdog={"graceSeconds": 1, "killSeconds": 600},
    ).start()
    first, second = make_pod(), make_pod()
    keeps = connect(node.container("keeps", 40, pod_uid=first.uid), first)
    waits = connect(node.container("waits", 40, pod_uid=second.uid), second)
    keeps.turn()
    keeps.do("write", word=9, value=1)
    waits.send("request")
    eventually("it is stopped", lambda: node.session("keeps")["processes"] == [])
    waits.expect("grant")
    assert node.session("keeps")["evicted"] == "TurnNotReleased"
    assert "does not release its memory after turn 1 of lane 0" in message(node, "keeps")


def test_a_lane_waits_for_memory_that_the_driver_still_shows(make_node: MakeNode, make_pod: MakePod) -> None:
    node = make_node(health=QUICK, lanes={"maxPerGpu": 1}, turns={"quantumMilliseconds": 10}).start()
    first, second = make_pod(), make_pod()
    dies = connect(node.container("dies", 40, pod_uid=first.uid), first)
    waits = connect(node.container("waits", 40, pod_uid=second.uid), second)
    driver_sees(node, **{f"p{dies.pid}": 300})
    eventually("the watchdog holds it", lambda: node.session("dies")["enforcement"] == "Watchdog")
    dies.turn()
    waits.send("request")
    dies.kill()
    sentence = "Waiting for default/dies to release its memory: it lost its connection to the node agent."
    eventually("the reason is told", lambda: sentence in message(node, "waits"))
    assert waits.receive(wait_seconds=1.5) == {"nothing": True}
    driver_sees(node)
    waits.expect("grant")


def test_memory_of_a_process_without_a_session_does_not_keep_the_lane_of_a_holder_that_died(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = make_node(
        health=QUICK,
        lanes={"maxPerGpu": 1},
        turns={"timeoutSeconds": 1, "quantumMilliseconds": 10},
        watchdog={"graceSeconds": 1, "killSeconds": 600},
    ).start()
    first, second = make_pod(), make_pod()
    container = node.container("dies", 40, pod_uid=first.uid)
    dies = connect(container, first)
    beside = works(first, container)
    waits = connect(node.container("waits", 40, pod_uid=second.uid), second)
    driver_sees(node, **{f"p{beside.pid}": 100})
    eventually("the watchdog holds it", lambda: node.session("dies")["enforcement"] == "Watchdog")
    dies.turn()
    dies.kill()
    waits.send("request")
    assert ended(beside) == -signal.SIGTERM
    waits.expect("grant")
    assert node.session("dies")["evicted"] == "TurnNotReleased"


def test_uncovered_growth_is_stopped_after_the_grace(make_node: MakeNode, make_pod: MakePod) -> None:
    node = start(make_node)
    first, second = make_pod(), make_pod()
    stays = connect(node.container("stays", 100, pod_uid=first.uid), first)
    stays.turn()
    stays.profile(500, 100)
    grows = connect(node.container("grows", 100, pod_uid=second.uid), second)
    grows.send("request")
    grows.profile(200, 50)
    grows.profile(600, 50)
    eventually("it is stopped", lambda: node.session("grows")["processes"] == [], 40)
    assert node.session("grows")["evicted"] == "MemoryNotCovered"
    assert "gets no turns" in message(node, "grows")
    assert len(node.session("stays")["processes"]) == 1


def test_a_process_that_is_not_in_the_pods_cgroup_is_never_stopped(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = start(make_node)
    pod, other = make_pod(), make_pod()
    process = connect(node.container("a", 50, pod_uid=pod.uid), pod)
    other.take(process)
    driver_sees(node, **{f"p{process.pid}": 600})
    refusal = f"that failed: process {process.pid} is not in a cgroup of pod {pod.uid}"
    eventually("it is refused", lambda: refusal in message(node, "a"), 40)
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

    eventually("one is stopped", lambda: evicted() == {"greedy": "MemoryQuotaExceeded", "modest": ""}, 40)
    eventually("it ends", lambda: f"pids=[{over.pid}]" in node.log)
    assert within.do("connect") == {}


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


def test_a_sidecar_and_a_pod_without_a_share_are_warned_and_stopped(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = start(make_node)
    pod, foreign = make_pod(), make_pod()
    container = node.container("a", 50, pod_uid=pod.uid).await_socket()
    trainer, sidecar = works(pod, container), works(pod, cgroup="sidecar")
    stranger = works(foreign, program=IGNORES_SIGTERM)
    driver_sees(node, **{f"p{trainer.pid}": 400, f"p{sidecar.pid}": 100, f"p{stranger.pid}": 200})
    warning = f"another container without a share of {node.gpus[0]} holds 100.0 MiB of its memory; will be stopped after 1 s"
    eventually("the pod says so", lambda: warning in message(node, "a"))
    assert ended(sidecar) == -signal.SIGTERM
    eventually("the other is told to end", lambda: f"pids=[{stranger.pid}]" in node.log)
    metric = f'laneway_gpu_foreign_processes{{gpu="{node.gpus[0]}",kind="pod",node="n1"}}'
    assert f"{metric} 2.0" in node.get("/metrics"), "the driver lists both still"
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
