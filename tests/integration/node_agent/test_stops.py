"""An agent that is stopped for a while, as by a suspended machine: its own threads were not late meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support.node_agent.node import eventually

LIMIT_SECONDS = 1.0
WORK = f"""
import threading, time
from laneway.node_agent.clock import SystemClock
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.gpus.deadline import DeadlineCaller

def work():
    print("began", flush=True)
    for _ in range(10):
        time.sleep(0.02)
    return "answered"

def call():
    return DeadlineCaller("a GPU", {LIMIT_SECONDS}).call(work)

def ask():
    loop = EventLoop(SystemClock())
    threading.Thread(target=loop.run, daemon=True).start()
    return loop.ask(work, {LIMIT_SECONDS})
"""


@pytest.mark.parametrize("what", ["call", "ask"])
def test_a_stop_of_the_agent_does_not_count_as_time_without_an_answer(what: str) -> None:
    """Otherwise a GPU would count as hanging, and its jobs would have to leave it."""
    with subprocess.Popen(
        [sys.executable, "-c", f"{WORK}\nprint({what}(), flush=True)"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "began\n"
        os.kill(process.pid, signal.SIGSTOP)
        until_seconds = time.monotonic() + LIMIT_SECONDS
        eventually("the limit is over", lambda: time.monotonic() > until_seconds)
        os.kill(process.pid, signal.SIGCONT)
        assert process.stdout.read() == "answered\n"
