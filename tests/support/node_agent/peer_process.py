"""A process in a container, driven line by line: JSON commands on standard input, JSON answers on standard output.

It speaks the session protocol from docs/contracts.md and rests on nothing of Laneway, so that it can also break it.
"""

from __future__ import annotations

import array
import json
import mmap
import os
import select
import socket
import time
from typing import Any

from tests.support.node_agent.command_loop import answer_commands

FOLDER = "/run/laneway"


class Peer:
    def __init__(self) -> None:
        self.connections: dict[int, socket.socket] = {}
        self.pages: dict[int, memoryview] = {}

    def connect(
        self, n: int = 0, wait_seconds: float = 60.0, name: str = "agent.sock", packet: str = ""
    ) -> dict[str, Any]:
        """Connect, and send a first packet at once: the agent waits for a hello no longer than a few seconds."""
        until = time.monotonic() + wait_seconds
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connection.settimeout(wait_seconds)
            try:
                connection.connect(f"{FOLDER}/{name}")
            except OSError as error:
                connection.close()
                if time.monotonic() > until:
                    return {"failed": str(error)}
                time.sleep(0.02)
            else:
                self.connections[n] = connection
                return self.send(packet, n) if packet else {}

    def send(self, text: str, n: int = 0, times: int = 1) -> dict[str, Any]:
        sent = 0
        try:
            for _ in range(times):
                self.connections[n].send(text.encode("latin-1"))
                sent += 1
        except OSError as error:
            return {"failed": str(error), "sent": sent}
        return {"sent": sent}

    def receive(self, n: int = 0, wait_seconds: float = 60.0) -> dict[str, Any]:
        connection = self.connections[n]
        connection.settimeout(wait_seconds)
        descriptors = array.array("i")
        try:
            data, ancillary, _, _ = connection.recvmsg(65536, socket.CMSG_SPACE(4))
        except TimeoutError:
            return {"nothing": True}
        except OSError as error:
            return {"closed": str(error)}
        if not data:
            return {"closed": ""}
        for _, _, payload in ancillary:
            descriptors.frombytes(payload)
        for descriptor in descriptors:
            self.pages[n] = memoryview(mmap.mmap(descriptor, 4096)).cast("Q")
            self.page_descriptor = descriptor
        return {"packet": json.loads(data)}

    def read(self, word: int, n: int = 0) -> dict[str, Any]:
        return {"value": self.pages[n][word]}

    def write(self, word: int, value: int, n: int = 0) -> dict[str, Any]:
        self.pages[n][word] = value
        return {}

    def shrink_page(self) -> dict[str, Any]:
        try:
            os.ftruncate(self.page_descriptor, 0)
        except OSError as error:
            return {"failed": str(error)}
        return {}

    def close(self, n: int = 0) -> dict[str, Any]:
        self.connections.pop(n).close()
        return {}

    def fork_holding_connections(self) -> dict[str, Any]:
        child = os.fork()
        if child == 0:
            for descriptor in (0, 1):
                os.close(descriptor)
            select.select([], [], [], 120)
            os._exit(0)
        return {"child": child}

    def hand_off(self, seconds: float) -> dict[str, Any]:
        """Take turns as short as the agent allows; returns when each was granted and released, by its number."""
        connection, page = self.connections[0], self.pages[0]
        until = time.monotonic() + seconds
        times: dict[int, tuple[int, int]] = {}
        while (left := until - time.monotonic()) > 0:
            connection.send(b'{"type":"request"}')
            connection.settimeout(left)  # a turn is not asked back when all others have ended
            turn = granted = 0
            try:
                while True:
                    packet = json.loads(connection.recv(65536))
                    if packet["type"] == "grant":
                        turn, granted = packet["turn"], time.monotonic_ns()
                        page[8] += 1
                        page[10] = granted
                    elif turn and packet["type"] == "yield":
                        break
            except TimeoutError:
                break
            times[turn] = (granted, time.monotonic_ns())
            connection.send(b'{"type":"release","turn":%d,"iterations":1,"gpu_seconds":0.0}' % turn)
        return {"times": times}

    def take_turns(self, turns: int, hold_seconds: float) -> dict[str, Any]:
        """Take a number of turns and keep each for a time; each release but the last requests the next
        turn."""
        connection = self.connections[0]
        connection.setblocking(True)
        grant = b'{"type":"grant","turn":'
        connection.send(b'{"type":"request"}')
        for left in range(turns, 0, -1):
            packet = connection.recv(65536)
            while not packet.startswith(grant):  # a yield; or one that a release crossed
                packet = connection.recv(65536)
            time.sleep(hold_seconds)
            release = b'{"type":"release","turn":%d,"iterations":0,"gpu_seconds":0.000000000%b}'
            connection.send(release % (int(packet[len(grant) : -1]), b',"again":true' if left > 1 else b""))
        return {"taken": turns}

    def train(self, **options: Any) -> dict[str, Any]:
        return Training(self, **options).run()


class Training:
    """Iterations in the way of the real client, with recorded times."""

    def __init__(
        self, peer: Peer, seconds: float, iteration_seconds: float, gap_seconds: float = 0.0
    ) -> None:
        self.connection = peer.connections[0]
        self.page = peer.pages[0]
        self.until = time.monotonic() + seconds
        self.iteration_seconds = iteration_seconds
        self.gap_seconds = gap_seconds
        self.turn = 0
        self.in_turn = 0
        self.done: list[tuple[float, float]] = []
        self.waits: list[float] = []
        self.turns: list[float] = []
        self.changed_seconds = time.monotonic()

    def run(self) -> dict[str, Any]:
        while time.monotonic() < self.until:
            if not self.turn:
                self.changed_seconds = time.monotonic()
                self.connection.send(b'{"type":"request"}')
                if not self._await_turn():
                    return {"closed": True, "iterations": self.done}
            self._iterate()
            if 0 < self.page[2] <= time.monotonic_ns():
                self._release()
            self._pause()
        if self.turn:
            self._release()
        return {"iterations": self.done, "waits": self.waits, "turns": self.turns}

    def _await_turn(self) -> bool:
        while not self.turn:
            if not self._take(60):
                return False
        return True

    def _take(self, wait_seconds: float) -> bool:
        """Deal with one packet; false when the connection is over."""
        self.connection.settimeout(wait_seconds)
        try:
            data = self.connection.recv(65536)
        except TimeoutError:
            return True
        except OSError:
            return False
        if not data:
            return False
        packet = json.loads(data)
        if packet["type"] == "grant":
            self.turn, self.in_turn = packet["turn"], 0
            self._measure(self.waits)
        elif packet["type"] == "revoke":
            self.turn = 0
            self._measure(self.turns)
        elif packet["type"] == "yield" and packet["turn"] == self.turn and not self.page[9]:
            self._release()
        return True

    def _iterate(self) -> None:
        # Before the record: what lies between belongs to the iteration by both, and is no pause to the agent alone.
        self.page[9] = 1
        began = time.monotonic()
        while time.monotonic() < began + self.iteration_seconds:
            time.sleep(max(0.0, began + self.iteration_seconds - time.monotonic()))
        ended = time.monotonic()
        self.page[13] += int((ended - began) * 1e9)
        self.page[8] += 1
        self.page[10] = time.monotonic_ns()
        self.page[9] = 0
        self.in_turn += 1
        self.done.append((began, ended))

    def _release(self) -> None:
        message = {"type": "release", "turn": self.turn, "iterations": self.in_turn, "gpu_seconds": 0.0}
        self.turn = 0
        self._measure(self.turns)
        self.connection.send(json.dumps(message).encode())

    def _measure(self, seconds: list[float]) -> None:
        """Add the time since its last request or grant."""
        now_seconds = time.monotonic()
        seconds.append(now_seconds - self.changed_seconds)
        self.changed_seconds = now_seconds

    def _pause(self) -> None:
        """Wait for data, as the client's listening thread does: what comes meanwhile is dealt with."""
        until = time.monotonic() + self.gap_seconds
        while True:
            left = until - time.monotonic()
            readable, _, _ = select.select([self.connection], [], [], max(0.0, left))
            if readable and not self._take(1):
                return
            if left <= 0:
                return


if __name__ == "__main__":
    answer_commands(Peer())
