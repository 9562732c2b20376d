"""A stand-in for nvidia-cuda-mps-control, which needs an NVIDIA GPU; it behaves the same as seen from
outside.

With ``-f`` it is a daemon in the foreground; each CUDA_MPS_PIPE_DIRECTORY has at most one. It keeps default
limits, and those of the servers that ``start_server`` started: a server takes the defaults of that moment.
Commands that change something are taken on the socket ``control_privileged`` only, which is the daemon's
user's. Without an option the program is a front end that sends its standard input to the daemon and prints
the answers.

FAKE_MPS_KEEPS=0 makes a daemon that answers and keeps no limit; SIGUSR1 makes it forget its limits.
"""

from __future__ import annotations

import fcntl
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

PIPES = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
LOGS = Path(os.environ["CUDA_MPS_LOG_DIRECTORY"])
GPUS = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
SOCKETS = {"control": 0o666, "control_privileged": 0o755}
READING = {"get_server_list", "get_default_device_pinned_mem_limit", "get_device_pinned_mem_limit"}
READING |= {"get_default_active_thread_percentage", "get_active_thread_percentage"}
LONGEST = 65536


class Limits:
    """The limits of one server, or the defaults."""

    def __init__(self) -> None:
        self.memory: dict[str, int] = {}
        """In MiB, by GPU."""
        self.percent = 100.0


class State:
    def __init__(self) -> None:
        self.keeps = os.environ.get("FAKE_MPS_KEEPS", "1") == "1"
        self.defaults = Limits()
        self.servers: dict[str, Limits] = {}
        self.processes: list[subprocess.Popen[bytes]] = []

    def forget(self) -> None:
        for limits in (self.defaults, *self.servers.values()):
            limits.memory.clear()
            limits.percent = 100.0

    def answer(self, command: str) -> str:
        name, *arguments = command.split()
        if name == "get_server_list":
            return "".join(f"{server}\n" for server in self.servers)
        if name == "start_server":
            return self._start_server()
        limits = self.defaults
        if "default" not in name:
            if not arguments or arguments[0] not in self.servers:
                return f"Server {' '.join(arguments[:1])} not found\n"
            limits = self.servers[arguments.pop(0)]
        if name.endswith("device_pinned_mem_limit"):
            return self._memory(name, limits, arguments)
        if name.endswith("active_thread_percentage"):
            return self._threads(name, limits, arguments)
        return "Unknown command\n"

    def _start_server(self) -> str:
        # Its end is the daemon's: then its standard input ends.
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.processes.append(process)
        limits = self.servers[str(process.pid)] = Limits()
        limits.memory.update(self.defaults.memory)
        limits.percent = self.defaults.percent
        return ""

    def _memory(self, name: str, limits: Limits, arguments: list[str]) -> str:
        if not arguments or arguments[0] not in GPUS:
            return "Invalid device\n"
        gpu, *values = arguments
        if name.startswith("get_"):
            mebibytes = limits.memory.get(gpu)
            if mebibytes is None:
                return ""
            return f"{mebibytes // 1024}G\n" if mebibytes % 1024 == 0 else f"{mebibytes}M\n"
        value = re.fullmatch(r"(\d+)([MG])", values[0]) if len(values) == 1 else None
        if value is None:
            return "Invalid value\n"
        if self.keeps:
            limits.memory[gpu] = int(value[1]) * (1024 if value[2] == "G" else 1)
        return ""

    def _threads(self, name: str, limits: Limits, arguments: list[str]) -> str:
        if name.startswith("get_"):
            return f"{limits.percent:.1f}\n"
        if len(arguments) != 1 or not 0 < float(arguments[0]) <= 100:
            return "Invalid percentage\n"
        if self.keeps:
            limits.percent = float(arguments[0])
        return ""


def daemon() -> int:
    lock = (PIPES / "control_lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("An instance of this daemon is already running", flush=True)
        return 1
    (PIPES / "nvidia-cuda-mps-control.pid").write_text(str(os.getpid()))
    log = (LOGS / "control.log").open("a")
    print(f"starting for {','.join(GPUS)}", file=log, flush=True)
    state = State()
    signal.signal(signal.SIGUSR1, lambda *_: state.forget())
    selector = selectors.DefaultSelector()
    for name, mode in SOCKETS.items():
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        hidden = LOGS / name  # clients are shown what is in the folder of pipes
        listener.bind(str(hidden))
        hidden.chmod(mode)
        listener.listen()
        hidden.rename(PIPES / name)  # who finds it can connect
        selector.register(listener, selectors.EVENT_READ, name)
    while True:
        for key, _ in selector.select():
            connection, _ = key.fileobj.accept()  # type: ignore[union-attr]
            with connection, suppress(OSError, IndexError):  # the front end was killed meanwhile
                command = connection.recv(LONGEST).decode()
                if command.split()[0] in READING:
                    connection.send(state.answer(command).encode() or b"\0")
                    continue
                if key.data != "control_privileged":
                    connection.send(b"Permission denied\n")
                    continue
                print(command, file=log, flush=True)
                if command == "quit":
                    for name in SOCKETS:
                        (PIPES / name).unlink()
                    return 0
                connection.send(state.answer(command).encode() or b"\0")


def front_end() -> int:
    for line in sys.stdin:
        command = line.strip()
        reads = command.split()[0] in READING
        privileged = PIPES / "control_privileged"
        path = PIPES / "control" if reads or not privileged.exists() else privileged
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            try:
                connection.connect(str(path))
            except OSError:
                print("Cannot find MPS control daemon process")
                return 1
            connection.send(command.encode())
            sys.stdout.write(connection.recv(LONGEST).strip(b"\0").decode())
    return 0


sys.exit(daemon() if sys.argv[1:] == ["-f"] else front_end())
