"""A process in a container that attacks the agent, driven line by line: JSON commands on standard input, answers on standard output.

Each attack is a method; it goes on for some seconds, as fast as it can, and comes back whenever it is cut off. It rests on
nothing of Laneway.
"""

from __future__ import annotations

import array
import ctypes
import itertools
import json
import mmap
import os
import random
import select
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

SOCKET = "/run/laneway/agent.sock"
WORD_MOST = 2**64 - 1
BYTES_MOST = 2**50
PROFILE = {
    "type": "profile",
    "persistent_bytes": 1 << 20,
    "ephemeral_bytes": 1 << 20,
    "framework_bytes": 0,
    "iteration_seconds": 0.01,
    "iterations": 5,
    "largest_tensor_bytes": 1,
    "model_bytes": 1,
}


class CutOffError(Exception):
    """The agent does not take the connection, or has ended it."""


class Line:
    """A connection, with a page once it is welcomed."""

    def __init__(self, wait_seconds: float = 2.0, path: str = SOCKET) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(wait_seconds)
        self.page: memoryview | None = None
        try:
            self.socket.connect(path)
        except OSError as error:
            self.socket.close()
            raise CutOffError from error

    def send(self, packet: dict[str, Any] | bytes) -> None:
        try:
            self.socket.send(packet if isinstance(packet, bytes) else json.dumps(packet).encode())
        except OSError as error:
            raise CutOffError from error

    def receive(self) -> dict[str, Any]:
        descriptors = array.array("i")
        try:
            data, ancillary, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(4))
        except OSError as error:
            raise CutOffError from error
        if not data:
            raise CutOffError
        for _, _, payload in ancillary:
            descriptors.frombytes(payload)
        for descriptor in descriptors:
            self.page = memoryview(mmap.mmap(descriptor, 4096)).cast("Q")
            os.close(descriptor)
        packet: dict[str, Any] = json.loads(data)
        return packet

    def hello(self, **fields: Any) -> memoryview:
        self.send(
            {
                "type": "hello",
                "version": 1,
                "pid": 1,
                "framework": "",
                "device": "cpu",
                "gpu": None,
                **fields,
            }
        )
        packet = self.receive()
        if packet["type"] != "welcome" or self.page is None:
            raise CutOffError
        return self.page

    def await_packet(self, kind: str) -> dict[str, Any]:
        while True:
            packet = self.receive()
            if packet["type"] == kind:
                return packet

    def close(self) -> None:
        self.socket.close()


class Hostile:
    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.children: list[int] = []
        self.taken: socket.socket

    def give_way(self) -> dict[str, Any]:
        """From now on leave the processor to all others: what an attack does to the agent is to be seen, not what any
        busy process does to its neighbours (against that, Kubernetes has CPU shares)."""
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        return {}

    def compute(self, seconds: float) -> dict[str, Any]:
        """No attack: what any busy process does."""
        until = time.monotonic() + seconds
        done = 0
        while time.monotonic() < until:
            done += 1
        return {"done": done, "cut_off": 0}

    # Packets

    def flood(self, seconds: float) -> dict[str, Any]:
        """Profiles, as fast as the socket takes them."""
        packet = json.dumps(PROFILE).encode()

        def attack(line: Line) -> int:
            line.send(packet)
            return 1

        return self._again_and_again(seconds, attack)

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
        return self._again_and_again(seconds, lambda line: self._send_and_read(line, next(packets)), False)

    def stray_releases(self, seconds: float) -> dict[str, Any]:
        """Releases of turns that are somebody else's."""
        numbers = itertools.count()

        def attack(line: Line) -> int:
            line.send({"type": "release", "turn": next(numbers), "iterations": 2**53, "gpu_seconds": 1e9})
            return 1

        return self._again_and_again(seconds, attack)

    def requests_in_turn(self, seconds: float) -> dict[str, Any]:
        """Requests while the turn is held, each of which used to be answered by a grant."""

        def attack(line: Line) -> int:
            line.send({"type": "request"})
            line.receive()
            return 1

        return self._again_and_again(seconds, attack)

    def turns_for_nothing(self, seconds: float) -> dict[str, Any]:
        """Turns that are given back at once."""

        def attack(line: Line) -> int:
            line.send({"type": "request"})
            turn = line.await_packet("grant")["turn"]
            line.send({"type": "release", "turn": turn, "iterations": 0, "gpu_seconds": 0})
            return 1

        return self._again_and_again(seconds, attack)

    def deaf(self, seconds: float) -> dict[str, Any]:
        """Requests to which the answers are never read, over a queue as short as the kernel allows."""

        def attack(line: Line) -> int:
            line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            line.send({"type": "request"})
            time.sleep(0.005)
            return 1

        return self._again_and_again(seconds, attack)

    def profiles_up_and_down(self, seconds: float, step_seconds: float = 0.02) -> dict[str, Any]:
        """Sizes that change the lanes, at a rate that is not cut off."""
        sizes = itertools.cycle([(1 << 20, 1 << 20), (1 << 20, 400 << 20), (450 << 20, 1 << 20)])

        def attack(line: Line) -> int:
            persistent, ephemeral = next(sizes)
            line.send({**PROFILE, "persistent_bytes": persistent, "ephemeral_bytes": ephemeral})
            time.sleep(step_seconds)
            return 1

        return self._again_and_again(seconds, attack)

    def huge_numbers(self) -> dict[str, Any]:
        """The largest of everything that the protocol lets through; the session stays."""
        line = Line()
        page = line.hello(framework="\u2028" * 100, device="\n" * 100)
        sizes = dict.fromkeys(("persistent_bytes", "ephemeral_bytes", "framework_bytes"), BYTES_MOST)
        line.send(
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
        line.send({"type": "report", **counts, "loss": f"{'9' * 12}e99", "remaining_seconds": 1e9})
        text = "\n2026-01-01 00:00:00,000 ERROR laneway.node_agent: default/victim ended\x1b[2J" * 40
        line.send(
            {"type": "overrun", "used_bytes": BYTES_MOST, "quota_bytes": BYTES_MOST, "message": text[:4096]}
        )
        for word in range(8, 64):
            page[word] = WORD_MOST
        self.kept.append(line)
        return {}

    # Connections

    def connect_and_close(self, seconds: float) -> dict[str, Any]:
        """Connections that end at once."""

        def attack(line: Line) -> int:
            line.close()
            return 1

        return self._again_and_again(seconds, attack, greets=False)

    def hoard(self, count: int) -> dict[str, Any]:
        """Open connections, say nothing, and keep what is taken; does not wait where the queue is full."""
        refused = 0
        for _ in range(count):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
            try:
                connection.connect(SOCKET)
            except OSError:
                refused += 1
                connection.close()
            else:
                self.kept.append(connection)
        return {"opened": count - refused, "refused": refused}

    def reconnect_as_holder(self, seconds: float) -> dict[str, Any]:
        """Sessions that claim to hold a turn of an earlier connection."""
        granted = 0

        def attack(line: Line) -> int:
            nonlocal granted
            line.hello(holds_turn=True)
            granted += line.receive()["type"] == "grant"
            return 1

        return {**self._again_and_again(seconds, attack, greets=False), "granted": granted}

    def fork_sessions(
        self, count: int, stays_connected: bool = False, pid_namespace: bool = False
    ) -> dict[str, Any]:
        """Processes that open a session each and live on; returns how many were let in within the time that each tries."""
        let_in = 0
        if pid_namespace:
            assert ctypes.CDLL(None).unshare(0x20000000) == 0, "CLONE_NEWPID"
        for _ in range(count):
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(read)
                os.write(write, b"y" if self._open_one(stays_connected) else b"n")
                os.close(write)
                select.select([], [], [], 600)
                os._exit(0)
            os.close(write)
            self.children.append(child)
            let_in += os.read(read, 1) == b"y"
            os.close(read)
        return {"let_in": let_in}

    def end_children(self) -> dict[str, Any]:
        for child in self.children:
            os.kill(child, 9)
        for child in self.children:
            os.waitpid(child, 0)
        self.children.clear()
        return {}

    def leave(self) -> dict[str, Any]:
        """Close what was kept."""
        for each in self.kept:
            each.close()
        self.kept.clear()
        return {}

    def connect_and_leave_it_to_a_child(self, name: str) -> dict[str, Any]:
        """Connect to a socket, and end; the connection is kept open by a child."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(f"/run/laneway/{name}")
        if os.fork():
            print(json.dumps({}), flush=True)
            os._exit(0)
        for descriptor in (0, 1):
            os.close(descriptor)
        select.select([], [], [], 600)
        os._exit(0)

    def refusal(self, name: str) -> dict[str, Any]:
        """Return what a client of a socket is told."""
        line = Line(path=f"/run/laneway/{name}")
        return line.receive()

    def hand_over(self, address: str) -> dict[str, Any]:
        """Open a session, and give the connection to each process that asks at an address outside the container."""
        line = Line()
        line.hello()
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen(1)
            taker, _ = listener.accept()
            with taker:
                socket.send_fds(taker, [b"!"], [line.socket.fileno()])
        self.kept.append(line)
        return {}

    def take_over(self, address: str) -> dict[str, Any]:
        """Take a connection from such a one, and a turn over it."""
        with socket.socket(socket.AF_UNIX) as receiver:
            receiver.connect(address)
            _, descriptors, _, _ = socket.recv_fds(receiver, 1, 1)
        self.taken = socket.socket(fileno=descriptors[0])
        self.taken.settimeout(20)
        self.taken.send(b'{"type":"request"}')
        return {"packet": json.loads(self.taken.recv(65536))}

    def rest_of_what_was_taken(self) -> dict[str, Any]:
        """Read on until the connection is over."""
        packets = []
        while data := self._next_of(self.taken):
            packets.append(json.loads(data)["type"])
        return {"packets": packets}

    def become(self, uid: int) -> dict[str, Any]:
        """Give up root."""
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
        return {}

    # The page and the turn

    def scribble(self, seconds: float) -> dict[str, Any]:
        """Take turns, and write garbage to the page all the time, the agent's words included."""
        chance = random.Random(1)
        words = [0, 1, WORD_MOST, 2**63, 2**62]

        def attack(line: Line) -> int:
            page = line.page
            assert page is not None
            line.send({"type": "request"})
            until = time.monotonic() + 0.05
            while time.monotonic() < until:
                for word in range(64):
                    page[word] = chance.choice(
                        [*words, time.monotonic_ns() + chance.randrange(-(10**9), 10**12)]
                    )
            if select.select([line.socket], [], [], 0)[0]:
                packet = line.receive()
                if packet["type"] == "yield":
                    line.send({"type": "release", "turn": packet["turn"], "iterations": 0, "gpu_seconds": 0})
            return 1

        return self._again_and_again(seconds, attack)

    def never_yield(self, seconds: float) -> dict[str, Any]:
        """Ask for a turn and keep it."""

        def attack(line: Line) -> int:
            assert line.page is not None
            line.page[9] = 1
            line.send({"type": "request"})
            line.socket.settimeout(seconds)
            line.await_packet("revoke")
            return 1

        return self._again_and_again(seconds, attack)

    def hog(self, seconds: float, hold_seconds: float, trick: str) -> dict[str, Any]:
        """Keep each turn for as long as it is not taken away, say that it was not used, and try to have that forgotten.

        Args:
            seconds: for how long.
            hold_seconds: how long a turn is kept.
            trick: ``none``; ``reconnect``; ``new process``: each turn is another process's; ``move``: sizes that change the lanes.
        """
        until = time.monotonic() + seconds
        turns = 0
        line = None
        while time.monotonic() < until:
            if trick == "new process":
                child = os.fork()
                if child == 0:
                    self._hold_one(self._greeted(), hold_seconds)
                    os._exit(0)
                os.waitpid(child, 0)
            else:
                line = line or self._greeted()
                self._hold_one(line, hold_seconds)
                if trick == "reconnect":
                    line.close()
                    line = None
                elif trick == "move":
                    line.send({**PROFILE, "ephemeral_bytes": (1 + 399 * (turns % 2)) << 20})
            turns += 1
        return {"turns": turns}

    def rename(self, name: str) -> dict[str, Any]:
        """Give the process a name that is no UTF-8."""
        with open("/proc/self/comm", "wb") as file:
            file.write(name.encode("latin-1"))
        return {}

    # Within

    @staticmethod
    def _greeted() -> Line:
        line = Line(30)
        line.hello()
        line.send(PROFILE)
        return line

    @staticmethod
    def _hold_one(line: Line, hold_seconds: float) -> None:
        assert line.page is not None
        line.send({"type": "request"})
        turn = line.await_packet("grant")["turn"]
        line.page[9] = 1
        time.sleep(hold_seconds)
        line.page[9] = 0
        line.send({"type": "release", "turn": turn, "iterations": 0, "gpu_seconds": 0})

    @staticmethod
    def _next_of(connection: socket.socket) -> bytes:
        try:
            return connection.recv(65536)
        except OSError:
            return b""

    def _open_one(self, stays_connected: bool) -> bool:
        try:
            line = Line()
            line.hello()
        except CutOffError:
            return False
        if stays_connected:
            self.kept.append(line)
        else:
            line.close()
        return True

    def _again_and_again(
        self, seconds: float, attack: Callable[[Line], int], greets: bool = True
    ) -> dict[str, Any]:
        done = cut_off = 0
        until = time.monotonic() + seconds
        line: Line | None = None
        while time.monotonic() < until:
            try:
                if line is None:
                    line = Line(max(0.01, min(2.0, until - time.monotonic())))
                    if greets:
                        line.hello()
                done += attack(line)
            except CutOffError:
                cut_off += 1
                if line is not None:
                    line.close()
                    line = None
            if line is not None and not greets:
                line.close()
                line = None
        if line is not None:
            line.close()
        return {"done": done, "cut_off": cut_off}

    def _send_and_read(self, line: Line, packet: bytes) -> int:
        line.send(packet)
        line.receive()
        return 1


def main() -> None:
    hostile = Hostile()
    print(json.dumps({"pid": os.getpid()}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        answer = getattr(hostile, command.pop("do"))(**command)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
