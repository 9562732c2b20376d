"""Attacks with packets: too many, malformed, or with false contents."""

from __future__ import annotations

import itertools
import json
import random
import socket
import time
from typing import Any

from hostile.agent_connection import BYTES_MOST, PROFILE, WORD_MOST, AgentConnection, repeat


class PacketAttacks:
    kept: list[Any]

    def flood(self, seconds: float) -> dict[str, Any]:
        """Profiles, as fast as the socket accepts them."""
        packet = json.dumps(PROFILE).encode()

        def attack(agent: AgentConnection) -> int:
            agent.send(packet)
            return 1

        return repeat(seconds, attack)

    def garbage(self, seconds: float) -> dict[str, Any]:
        """Bytes, half messages, and JSON that takes long to read; each on a connection of its own."""
        numbers = ",".join(f"{number}.5" for number in range(8000))
        packets = itertools.cycle(
            [
                bytes(random.Random(1).randbytes(65_000)),
                b'{"type": "hel',
                b"[" * 60_000,
                b"[" * 900 + b"]" * 900,
                f'{{"type": [{numbers}]}}'.encode(),
                b'{"type": "release", "turn": ' + b"9" * 60_000,
                json.dumps({"x" * 60_000: "\ud800"}).encode(),
            ]
        )
        return repeat(seconds, lambda agent: self._send_and_read(agent, next(packets)), False)

    def stray_releases(self, seconds: float) -> dict[str, Any]:
        """Releases of other sessions' turns."""
        numbers = itertools.count()

        def attack(agent: AgentConnection) -> int:
            agent.send({"type": "release", "turn": next(numbers), "iterations": 2**53, "gpu_seconds": 1e9})
            return 1

        return repeat(seconds, attack)

    def requests_in_turn(self, seconds: float) -> dict[str, Any]:
        """Request a turn that is already held; the agent answers each request with the same grant."""

        def attack(agent: AgentConnection) -> int:
            agent.send({"type": "request"})
            agent.receive()
            return 1

        return repeat(seconds, attack)

    def turns_for_nothing(self, seconds: float) -> dict[str, Any]:
        """Turns that are given back at once."""

        def attack(agent: AgentConnection) -> int:
            agent.send({"type": "request"})
            turn = agent.await_packet("grant")["turn"]
            agent.send({"type": "release", "turn": turn, "iterations": 0, "gpu_seconds": 0})
            return 1

        return repeat(seconds, attack)

    def deaf(self, seconds: float) -> dict[str, Any]:
        """Send requests and never read the answers, with the smallest receive buffer that the kernel allows."""

        def attack(agent: AgentConnection) -> int:
            agent.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            agent.send({"type": "request"})
            time.sleep(0.005)
            return 1

        return repeat(seconds, attack)

    def profiles_up_and_down(self, seconds: float, step_seconds: float = 0.02) -> dict[str, Any]:
        """Sizes that change the lanes, at a rate that is not cut off."""
        sizes = itertools.cycle([(1 << 20, 1 << 20), (1 << 20, 400 << 20), (450 << 20, 1 << 20)])

        def attack(agent: AgentConnection) -> int:
            persistent, ephemeral = next(sizes)
            agent.send({**PROFILE, "persistent_bytes": persistent, "ephemeral_bytes": ephemeral})
            time.sleep(step_seconds)
            return 1

        return repeat(seconds, attack)

    def huge_numbers(self) -> dict[str, Any]:
        """The largest values that the protocol accepts; the session stays."""
        agent = AgentConnection()
        page = agent.hello(framework="\u2028" * 100, device="\n" * 100)
        sizes = dict.fromkeys(("persistent_bytes", "ephemeral_bytes", "framework_bytes"), BYTES_MOST)
        agent.send(
            {
                **PROFILE,
                **sizes,
                "largest_tensor_bytes": BYTES_MOST,
                "model_bytes": BYTES_MOST,
                "iterations": 2**53,
                "iteration_seconds": 1e9,
                "data_seconds": 1e9,
            }
        )
        counts = dict.fromkeys(("step", "steps", "epoch"), 2**53)
        agent.send({"type": "report", **counts, "loss": f"{'9' * 12}e99", "remaining_seconds": 1e9})
        text = "\n2026-01-01 00:00:00,000 ERROR laneway.node_agent: default/victim ended\x1b[2J" * 40
        agent.send(
            {"type": "overrun", "used_bytes": BYTES_MOST, "quota_bytes": BYTES_MOST, "message": text[:4096]}
        )
        for word in range(8, 64):
            page[word] = WORD_MOST
        self.kept.append(agent)
        return {}

    def _send_and_read(self, agent: AgentConnection, packet: bytes) -> int:
        agent.send(packet)
        agent.receive()
        return 1
