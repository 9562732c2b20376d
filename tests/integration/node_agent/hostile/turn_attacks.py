"""Attacks with turns and the shared page."""

from __future__ import annotations

import os
import random
import select
import signal
import time
from typing import Any

from hostile.agent_connection import PROFILE, WORD_MOST, AgentConnection, repeat


class TurnAttacks:
    def scribble(self, seconds: float) -> dict[str, Any]:
        """Take turns, and write garbage to the page all the time, the agent's words included."""
        chance = random.Random(1)
        words = [0, 1, WORD_MOST, 2**63, 2**62]

        def attack(agent: AgentConnection) -> int:
            page = agent.page
            assert page is not None
            agent.send({"type": "request"})
            until = time.monotonic() + 0.05
            while time.monotonic() < until:
                for word in range(64):
                    page[word] = chance.choice(
                        [*words, time.monotonic_ns() + chance.randrange(-(10**9), 10**12)]
                    )
            if select.select([agent.socket], [], [], 0)[0]:
                packet = agent.receive()
                if packet["type"] == "yield":
                    agent.send({"type": "release", "turn": packet["turn"], "iterations": 0, "gpu_seconds": 0})
            return 1

        return repeat(seconds, attack)

    def never_yield(self, seconds: float) -> dict[str, Any]:
        """Ask for a turn and keep it."""

        def attack(agent: AgentConnection) -> int:
            assert agent.page is not None
            agent.page[9] = 1
            agent.send({"type": "request"})
            agent.socket.settimeout(seconds)
            agent.await_packet("revoke")
            return 1

        return repeat(seconds, attack)

    def fall_silent(self) -> None:
        """Keep a turn until it is revoked, and do nothing from then on."""
        agent = self._greeted()
        assert agent.page is not None
        agent.page[9] = 1
        agent.send({"type": "request"})
        agent.await_packet("revoke")
        signal.pause()

    def compute_without_turn(self, seconds: float, asks_first: bool) -> dict[str, Any]:
        """Compute all the time, as its page says: without a turn at all, or on after one that was given back."""
        agent = self._greeted()
        assert agent.page is not None
        if asks_first:
            self._hold_one(agent, 0.0)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            agent.page[9] = 1
            time.sleep(0.005)
            agent.page[8] += 1
            agent.page[10] = time.monotonic_ns()
            agent.page[13] += 5_000_000
        return {"iterations": agent.page[8]}

    def hog(self, seconds: float, hold_seconds: float, trick: str) -> dict[str, Any]:
        """Keep each turn until it is revoked, report no use of it, and try to have the charge forgotten.

        Args:
            seconds: for how long.
            hold_seconds: how long a turn is kept.
            trick: ``none``; ``reconnect``; ``new process``: each turn is another process's; ``processes``: four at once;
                ``resize``: other sizes after each turn; ``move``: a new process whose sizes need another lane than its
                container has without a process.
        """
        until = time.monotonic() + seconds
        turns = 0
        agent = None
        children = self._hogs(seconds, hold_seconds) if trick == "processes" else []
        while time.monotonic() < until:
            if trick in ("new process", "move"):
                child = os.fork()
                if child == 0:
                    self._hold_one(self._greeted(400 if trick == "move" else 1), hold_seconds)
                    os._exit(0)
                os.waitpid(child, 0)
            else:
                agent = agent or self._greeted()
                self._hold_one(agent, hold_seconds)
                if trick == "reconnect":
                    agent.close()
                    agent = None
                elif trick == "resize":
                    agent.send({**PROFILE, "ephemeral_bytes": (1 + 399 * (turns % 2)) << 20})
            turns += 1
        if agent is not None:
            # Else it may be waited for: a grant that it has not read may be its next turn.
            agent.send({"type": "goodbye"})
            agent.close()
        for child in children:
            os.waitpid(child, 0)
        return {"turns": turns}

    def keep_the_lane(self, seconds: float, keep_seconds: float) -> dict[str, Any]:
        """Drop the connection as soon as a turn is granted, and keep the lane nearly until this process would be stopped for it."""
        until = time.monotonic() + seconds
        kept = []
        agent = self._greeted()
        while time.monotonic() < until:
            agent.send({"type": "request"})
            agent.await_packet("grant")
            agent.close()
            began = time.monotonic()
            time.sleep(keep_seconds)
            kept.append((began, time.monotonic()))
            agent = self._greeted()
        return {"kept": kept}

    def _hogs(self, seconds: float, hold_seconds: float) -> list[int]:
        """Start three more processes that do the same."""
        children = []
        for _ in range(3):
            child = os.fork()
            if child == 0:
                self.hog(seconds, hold_seconds, "none")
                os._exit(0)
            children.append(child)
        return children

    def rename(self, name: str) -> dict[str, Any]:
        """Give the process a name that is not UTF-8."""
        with open("/proc/self/comm", "wb") as file:
            file.write(name.encode("latin-1"))
        return {}

    @staticmethod
    def _greeted(ephemeral_mebibytes: int = 1) -> AgentConnection:
        agent = AgentConnection(30)
        agent.hello()
        agent.send({**PROFILE, "ephemeral_bytes": ephemeral_mebibytes << 20})
        return agent

    @staticmethod
    def _hold_one(agent: AgentConnection, hold_seconds: float) -> None:
        assert agent.page is not None
        agent.send({"type": "request"})
        turn = agent.await_packet("grant")["turn"]
        agent.page[9] = 1
        time.sleep(hold_seconds)
        agent.page[9] = 0
        agent.send({"type": "release", "turn": turn, "iterations": 0, "gpu_seconds": 0})
