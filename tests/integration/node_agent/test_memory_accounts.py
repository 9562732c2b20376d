"""A real agent and real processes that keep memory accounts, as the interposer does."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from laneway.node_agent.memory_accounts.packets import Kind
from laneway.node_agent.sessions.limits import Limits

from tests.support.node_agent import account_client
from tests.support.node_agent.footprint import Footprint, comes_back
from tests.support.node_agent.node import Container, Node, PeerProcess, eventually
from tests.support.node_agent.progress import ALONE_SECONDS, train_together, undisturbed_progress_ratio

MakeNode = Callable[..., Node]

PROGRAM = Path(account_client.__file__)
MIB = 1 << 20
GRANTED, REFUSED, NO_SUCH_GPU = 0, 1, 2
SECONDS = 3.0
LIMITS = Limits()


class AccountHolder:
    """A process that keeps its account of the node's first GPU."""

    def __init__(self, container: Container, gpu: int = 0) -> None:
        self.gpu = container.node.gpus[gpu]
        self.process: PeerProcess = container.await_socket().process(PROGRAM)
        assert self.process.do("open") == {}

    def ask(self, kind: Kind, mebibytes: int = 0, n: int = 0) -> dict[str, Any]:
        return self.process.do("ask", kind=kind, gpu=self.gpu, size=mebibytes * MIB, n=n)

    def reserve(self, mebibytes: int) -> int:
        return int(self.ask(Kind.RESERVE, mebibytes)["status"])

    def release(self, mebibytes: int) -> None:
        """Release, and wait until the agent has done it: a packet of another process may be read before this one's."""
        before = self.ask(Kind.QUERY)["part"]
        assert self.ask(Kind.RELEASE, mebibytes) == {}
        assert self.ask(Kind.QUERY)["part"] == before - mebibytes * MIB


def used_mebibytes(node: Node, pod: str) -> float:
    return float(node.session(pod)["accounted_bytes"]) / MIB


def test_processes_of_a_container_share_its_quota_exactly(make_node: MakeNode) -> None:
    node = make_node().start()
    container = node.container("a", 50)
    first, second = AccountHolder(container), AccountHolder(container)
    assert first.reserve(300) == GRANTED
    assert second.reserve(201) == REFUSED
    assert second.ask(Kind.RESERVE, 200) == {
        "status": GRANTED,
        "used": 500 * MIB,
        "quota": 500 * MIB,
        "part": 200 * MIB,
    }
    assert second.process.do("ask", kind=Kind.RESERVE, gpu=second.gpu, size=1)["status"] == REFUSED
    first.release(300)
    assert second.ask(Kind.QUERY) == {
        "status": GRANTED,
        "used": 200 * MIB,
        "quota": 500 * MIB,
        "part": 200 * MIB,
    }
    labels = f'{{gpu_uuid="{node.gpus[0]}",namespace="default",node="n1",pod="a",training_job=""}}'
    assert f"laneway_refused_allocations_total{labels} 2.0" in node.get("/metrics")
    assert used_mebibytes(node, "a") == 200
    other = AccountHolder(node.container("b", 50))
    assert other.reserve(500) == GRANTED, "each container has a quota of its own"


def test_a_gpu_without_a_share_has_no_account(make_node: MakeNode) -> None:
    node = make_node().start()
    holder = AccountHolder(node.container("a", 50), gpu=1)
    assert holder.ask(Kind.RESERVE, 1) == {"status": NO_SUCH_GPU, "used": 0, "quota": 0, "part": 0}
    assert holder.ask(Kind.HELD, 1) == {}
    assert holder.ask(Kind.QUERY)["status"] == NO_SUCH_GPU


def test_the_end_of_a_process_gives_its_bytes_back_even_if_a_child_holds_its_connection(
    make_node: MakeNode,
) -> None:
    node = make_node().start()
    container = node.container("a", 50).await_socket()
    before = Footprint.at_rest(node)
    holder, other = AccountHolder(container), AccountHolder(container)
    assert holder.reserve(500) == GRANTED
    child = holder.process.do("fork_with_connection")["child"]
    assert other.reserve(1) == REFUSED
    holder.process.kill()
    eventually("its bytes are free", lambda: used_mebibytes(node, "a") == 0)
    assert other.reserve(500) == GRANTED
    os.kill(child, signal.SIGKILL)
    other.process.end()
    comes_back(node, before)


def test_a_forked_child_has_an_account_of_its_own(make_node: MakeNode) -> None:
    node = make_node().start()
    parent = AccountHolder(node.container("a", 50))
    assert parent.reserve(300) == GRANTED
    child = parent.process.do("fork_with_account", gpu=parent.gpu, size=201 * MIB)
    assert (child["status"], child["part"]) == (REFUSED, 0)
    os.kill(child["child"], signal.SIGKILL)
    child = parent.process.do("fork_with_account", gpu=parent.gpu, size=200 * MIB)
    assert (child["status"], child["used"], child["part"]) == (GRANTED, 500 * MIB, 200 * MIB)
    os.kill(child["child"], signal.SIGKILL)
    eventually("the child's bytes are free", lambda: used_mebibytes(node, "a") == 300)


def test_a_container_may_have_more_accounts_than_sessions(make_node: MakeNode) -> None:
    node = make_node().start()
    parent = AccountHolder(node.container("a", 50))
    reserved = []
    for _ in range(LIMITS.processes + 4):
        child = parent.process.do("fork_with_account", gpu=parent.gpu, size=MIB)
        reserved.append(child["used"])
    assert reserved == [number * MIB for number in range(1, LIMITS.processes + 5)]


def test_another_connection_of_a_process_replaces_its_first(make_node: MakeNode) -> None:
    node = make_node().start()
    holder = AccountHolder(node.container("a", 50))
    assert holder.reserve(300) == GRANTED
    assert holder.process.do("open", n=1) == {}
    assert holder.process.do("ended") == {"ended": True}
    assert holder.ask(Kind.QUERY, n=1)["used"] == 0
    assert holder.ask(Kind.HELD, 120, n=1) == {}
    assert holder.ask(Kind.QUERY, n=1)["used"] == 120 * MIB


def test_a_malformed_packet_ends_the_connection_and_frees_its_bytes(make_node: MakeNode) -> None:
    node = make_node().start()
    holder = AccountHolder(node.container("a", 50))
    for _ in range(5):
        assert holder.reserve(100) == GRANTED
        holder.process.do("send_raw", text="{}")
        assert holder.process.do("ended") == {"ended": True}
        eventually("its bytes are free", lambda: used_mebibytes(node, "a") == 0)
        holder.process.do("open")
    lines = [line for line in node.log.splitlines() if "account connection closed" in line]
    assert 1 <= len(lines) < 5, "the log is rate-limited"
    assert "a request has 40 bytes, not 2" in lines[0]


def test_a_process_of_another_container_is_turned_away(make_node: MakeNode) -> None:
    node = make_node().start()
    victim = node.container("victim", 50).await_socket()
    container = node.container("intruder", 50)
    intruder = AccountHolder(container)
    (container.folder / "lent.sock").hardlink_to(victim.folder / "account.sock")
    assert intruder.process.do("open", n=1, path="/run/laneway/lent.sock") == {}
    assert intruder.process.do("ended", n=1) == {"ended": True}
    eventually("it is logged", lambda: "connection rejected container=default/victim" in node.log)
    assert used_mebibytes(node, "victim") == 0


def test_an_account_survives_a_killed_agent(make_node: MakeNode) -> None:
    node = make_node().start()
    container = node.container("a", 50)
    holder, leaving = AccountHolder(container), AccountHolder(container)
    assert (holder.reserve(300), leaving.reserve(100)) == (GRANTED, GRANTED)
    saves_account(node, 400)
    node.kill()
    leaving.process.end()
    node.start()
    assert used_mebibytes(node, "a") == 300, "of the process that has not reconnected yet"
    newcomer = AccountHolder(container)
    assert newcomer.reserve(201) == REFUSED
    assert newcomer.reserve(200) == GRANTED
    assert "closed" in holder.ask(Kind.QUERY)
    assert holder.process.do("open") == {}
    assert holder.ask(Kind.HELD, 310) == {}
    assert holder.ask(Kind.QUERY)["used"] == 510 * MIB, "what it holds counts, whatever was granted meanwhile"
    assert newcomer.reserve(0) == GRANTED
    assert newcomer.reserve(1) == REFUSED
    holder.release(11)
    assert newcomer.reserve(1) == GRANTED


def test_the_bytes_of_a_restored_process_are_free_when_it_ends(make_node: MakeNode) -> None:
    node = make_node().start()
    holder = AccountHolder(node.container("a", 50))
    assert holder.reserve(300) == GRANTED
    saves_account(node, 300)
    node.kill()
    node.start()
    assert used_mebibytes(node, "a") == 300
    holder.process.kill()
    eventually("its bytes are free", lambda: used_mebibytes(node, "a") == 0)


def saves_account(node: Node, mebibytes: int) -> None:
    """Wait until the agent has put an account of so many bytes on the disk."""
    path = node.root / "var/lib/laneway/agent/state.json"

    def saved() -> bool:
        accounts = json.loads(path.read_text())["gpus"][0]["accounts"] if path.exists() else []
        found = [process["reserved_bytes"] for account in accounts for process in account["processes"]]
        return sum(found) == mebibytes * MIB

    eventually("the account is saved", saved)


def test_a_flood_waits_and_others_turns_and_accounts_go_on(make_node: MakeNode) -> None:
    node = make_node(lanes={"maxPerGpu": 1}, turns={"quantumMilliseconds": 10}).start()
    trainers = []
    for pod in ("c", "d"):
        process = node.container(pod, 20).await_socket().process()
        process.hello()
        process.profile(10, 10)
        trainers.append(process)
    honest = AccountHolder(node.container("honest", 20))
    flooding = node.container("hostile", 20).await_socket().process(PROGRAM)
    assert flooding.pid
    said_before = len(node.log)  # a machine short of inotify instances is warned of at the start
    served = []

    def attacked() -> list[float]:
        flooding.start("flood", gpu=node.gpus[0], seconds=SECONDS, processes=4)
        for process in trainers:
            process.start("train", seconds=SECONDS, iteration_seconds=0.005)
        for _ in range(50):
            assert honest.reserve(200) == GRANTED
            assert honest.ask(Kind.RELEASE, 200) == {}
        rates = [len(process.finish()["iterations"]) / SECONDS for process in trainers]
        served.append(flooding.finish()["done"])
        return rates

    ratio = undisturbed_progress_ratio(lambda: train_together(trainers, ALONE_SECONDS), attacked, bound=0.5)
    handed = [turn["pod"] for turn in node.get("/turns") if turn["end"] == "released"]
    assert ratio > 0.5
    assert min(served) > 1000, "the flood is served, and never cut off"
    assert min(map(handed.count, "cd")) > max(map(handed.count, "cd")) / 2
    assert " WARNING " not in node.log[said_before:]
    assert "Traceback" not in node.log
