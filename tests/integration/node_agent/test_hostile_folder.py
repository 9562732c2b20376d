"""Attacks on a container's own folder, if it is writable (the plugin mounts it read-only).

At worst the container loses its own socket. The agent neither hangs nor touches anything else.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.node_agent.footprint import Footprint, comes_back
from tests.support.node_agent.node import Node, eventually
from tests.support.node_agent.progress import ALONE_SECONDS, train_together, undisturbed_progress_ratio

MakeNode = Callable[..., Node]


def replace_by_folder(folder: Path, agent_pid: int) -> None:
    (folder / "agent.sock").unlink()
    (folder / "agent.sock").mkdir()
    (folder / "agent.sock" / "full").touch()


def squat_on_the_temporary_name(folder: Path, agent_pid: int) -> None:
    (folder / f".agent.sock.{agent_pid}").mkdir()
    (folder / "agent.sock").unlink()


def replace_by_link(folder: Path, agent_pid: int) -> None:
    (folder / "agent.sock").unlink()
    (folder / "agent.sock").symlink_to("/etc/passwd")


def replace_record_by_pipe(folder: Path, agent_pid: int) -> None:
    (folder / "container.json").unlink()
    os.mkfifo(folder / "container.json")


def replace_record_by_link(folder: Path, agent_pid: int) -> None:
    (folder / "container.json").unlink()
    (folder / "container.json").symlink_to("/dev/zero")


def claim_more(folder: Path, agent_pid: int) -> None:
    record = json.loads((folder / "container.json").read_text())
    uuid = next(iter(record["shares"]))
    record["device_ids"] = [f"{uuid}::{slot}" for slot in range(100, 200)]
    record["shares"] = {uuid: 100}
    (folder / "container.json").write_text(json.dumps(record))


def shut_everybody_out(folder: Path) -> None:
    os.chown(folder, 1000, 1000)
    folder.chmod(0)


ATTACKS: dict[str, tuple[Callable[[Path, int], None], str]] = {
    "its socket is a folder": (replace_by_folder, "cannot open socket"),
    "the name that it is made under is taken": (squat_on_the_temporary_name, "cannot open socket"),
    "its socket is a link": (replace_by_link, ""),
    "its record is a pipe": (replace_record_by_pipe, "not a regular file"),
    "its record is a link": (replace_record_by_link, "cannot be read"),
    "its record claims more": (claim_more, "is not the hash of these ids"),
}


@pytest.mark.parametrize("what", ATTACKS)
def test_a_spoiled_folder_costs_its_container_at_most_its_socket(make_node: MakeNode, what: str) -> None:
    attack, expected = ATTACKS[what]
    node = make_node().start()
    other = node.container("other", 20).await_socket().process()
    assert other.pid
    container = node.container("hostile", 20).await_socket()
    shares = node.session("hostile")["share_percent"], node.session("hostile")["quota_bytes"]
    before = Footprint.at_rest(node)
    attack(container.folder, node.agent_pid)
    eventually("it is logged", lambda: expected in node.log)
    other.hello()
    other.turn()
    assert (node.session("hostile")["share_percent"], node.session("hostile")["quota_bytes"]) == shares
    lines = [line for line in node.log.splitlines() if expected and expected in line]
    assert len(lines) <= 8, lines
    assert Path("/etc/passwd").stat().st_mode & 0o777 == 0o644
    other.end()
    dead = container.folder.rename(node.root / "dead")  # as the plugin does: its name is free at once
    eventually("it is forgotten", lambda: node.session("hostile")["state"] == "Ended")
    shutil.rmtree(dead)  # not before: the agent may have been about to put the socket back
    comes_back(node, before)


def test_files_made_without_end_do_not_keep_others_from_their_turns(make_node: MakeNode) -> None:
    node = make_node().start()
    other = node.container("other", 20).await_socket().process()
    other.hello()
    other.profile(10, 10)
    container = node.container("hostile", 20).await_socket()

    def fill(stopped: threading.Event) -> None:
        path = container.folder / "file"
        while not stopped.is_set():
            path.touch()
            path.unlink()

    def attacked() -> list[float]:
        stopped = threading.Event()
        filler = threading.Thread(target=fill, args=(stopped,))
        filler.start()
        try:
            rates = train_together([other], 3)
            eventually("the agent is healthy", node.is_healthy)
        finally:
            stopped.set()
            filler.join()
        return rates

    before = Footprint.at_rest(node)
    ratio = undisturbed_progress_ratio(lambda: train_together([other], ALONE_SECONDS), attacked, bound=0.5)
    assert ratio > 0.5
    comes_back(node, before)


@pytest.mark.skipif(os.geteuid() != 0, reason="the test needs root to give its folder to another user")
def test_an_unreadable_folder_does_not_count_as_removed(make_node: MakeNode) -> None:
    node = make_node()
    # As in its pod, the agent runs as root without the capabilities that bypass file permissions.
    node.starter = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
    node.start()
    container = node.container("hostile", 50).await_socket()
    process = container.process()
    process.hello()
    process.turn()
    shut_everybody_out(container.folder)
    eventually("it is told of", lambda: "cannot read record" in node.log)
    assert node.session("hostile")["state"] == "Holding"
    assert len(node.session("hostile")["processes"]) == 1
