"""The packets that a process sends just before it ends are read, even by an agent that was busy while it
lived."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from tests.support.node_agent.node import Node, eventually

MakeNode = Callable[..., Node]


def test_the_final_packets_of_an_ended_process_are_read(make_node: MakeNode) -> None:
    node = make_node().start()
    process = node.container("a").await_socket().process()
    process.hello()
    os.kill(node.agent_pid, signal.SIGSTOP)
    try:
        for step in (1, 2):
            process.send("report", step=step, loss="0.5")
        process.send("goodbye")
        process.end()
    finally:
        os.kill(node.agent_pid, signal.SIGCONT)
    eventually("its end is seen", lambda: not node.session("a")["processes"])
    session = node.session("a")
    assert (session["report"]["step"], session["report"]["loss"]) == (2, "0.5")
    assert "without a goodbye" not in session["message"]
