"""Sets the limits of MPS clients in NVIDIA's control daemon, and publishes only what the daemon reads back.

One server serves the GPU's clients: in the compute mode EXCLUSIVE_PROCESS a GPU has room for one, and in the
default mode a process could bypass it. A client has the limit of its server when it connects, and the
variables of its environment can only lower that. So the daemon's limit of a GPU is the largest quota on it:
it is exact for the containers with the largest share, and the level `MPS` is published for no other.

The defaults hold for servers that start later, and the commands with a pid for the later clients of a server
that runs. Both are set and read back.
"""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from laneway.api.quantity import format_bytes
from laneway.api.quota import quota_bytes
from laneway.node_agent.enforcement.mps_control import PROGRAM, MPSControl, failure_reason
from laneway.node_agent.enforcement.mps_limits_file import ConfirmedLimit, MPSLimitsFile
from laneway.node_agent.processes import start_ticks
from laneway.node_agent.turns.gpu_turns import GPUTurns

_log = logging.getLogger(__name__)

NOT_SET = "the limits of the MPS control daemon have not been set yet"
LOST = "the MPS control daemon lost the limits that were set; they are set again and read back once more"
_MEBIBYTE = 1 << 20
_UNITS = {"M": _MEBIBYTE, "G": 1 << 30}
_TICKS_PER_SECOND = 100
"""USER_HZ, the unit of ``starttime`` in /proc/PID/stat, on every architecture with NVIDIA's driver."""


@dataclass(frozen=True, slots=True)
class WantedLimits:
    """What the daemon shall limit its clients to."""

    memory_bytes: Mapping[str, int]
    """By GPU, in whole MiB."""

    thread_percent: int


def wanted_limits(turns: Mapping[str, GPUTurns], limit_threads: bool) -> WantedLimits:
    """Return the limits for the containers that hold shares now. Called on the loop's thread.

    A GPU without containers has the limit of the smallest share. So the limit never was higher than the quota
    of the next container, if that starts before its limit is raised.
    """
    memory: dict[str, int] = {}
    percents = [1]
    for uuid, turn in turns.items():
        smallest = quota_bytes(1, turn.gpu.allocatable_bytes)
        quota = max((lease.quota_bytes for lease in turn.leases.values()), default=smallest)
        memory[uuid] = max(1, quota // _MEBIBYTE) * _MEBIBYTE
        percents += [lease.record.shares.get(uuid, 1) for lease in turn.leases.values()]
    return WantedLimits(memory, min(100, max(percents)) if limit_threads else 100)


def limit_holds(limit: ConfirmedLimit | None, quota: int, pids: Collection[int]) -> bool:
    """Return whether the daemon's limit holds each of some clients to a quota in bytes."""
    if limit is None or limit.limit_bytes > quota:
        return False
    started = [start_ticks(pid) for pid in pids]
    return all(ticks is not None and ticks >= limit.since_ticks for ticks in started)


@dataclass(slots=True)
class _Answers:
    """What the daemon reads back, of the defaults and of each server."""

    memory_bytes: dict[str, set[int | None]] = field(default_factory=dict)
    thread_percent: set[float | None] = field(default_factory=set)


class MPSLimits:
    """Keeps the daemon's limits as wanted, on its own thread."""

    def __init__(
        self,
        control: MPSControl,
        gpus: Sequence[str],
        file: MPSLimitsFile,
        changed: Callable[[], None],
        check_seconds: float = 5.0,
    ) -> None:
        """Prepare; nothing is set yet.

        Args:
            control: reaches the daemon.
            gpus: the uuids of the GPUs that it serves.
            file: remembers the limits over a restart of the agent.
            changed: called on the thread when :meth:`problem` or :meth:`limit` changes.
            check_seconds: interval between two readings.
        """
        self._control = control
        self._gpus = tuple(gpus)
        self._file = file
        self._changed = changed
        self._check_seconds = check_seconds
        self._problems = dict.fromkeys(gpus, NOT_SET)
        self._limits: dict[str, ConfirmedLimit] = {}
        self._held = {each.gpu: each for each in file.read()}
        """The last confirmed limit of each GPU, by this agent process or an earlier one."""

        self._wanted: WantedLimits | None = None
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mps-limits", daemon=True)

    def problem(self, uuid: str) -> str:
        """Return why a GPU's clients are not limited as wanted, as a clause; empty if they are."""
        return self._problems[uuid]

    def limit(self, uuid: str) -> ConfirmedLimit | None:
        """Return the limit that the daemon has read back; None if it is not as wanted."""
        return self._limits.get(uuid)

    def want(self, wanted: WantedLimits) -> None:
        """Change the wanted limits. May be called from any thread."""
        if wanted != self._wanted:
            self._wanted = wanted
            self._wake.set()

    def start(self) -> None:
        """Start."""
        self._thread.start()

    def stop(self) -> None:
        """Stop. The daemon and its limits stay as they are."""
        self._stopped.set()
        self._wake.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._wake.clear()
            if self._wanted is not None:
                before = dict(self._problems), dict(self._limits)
                self._check(self._wanted)
                self._file.write(self._held.values())
                if (self._problems, self._limits) != before:
                    self._changed()
            self._wake.wait(self._check_seconds)

    def _check(self, wanted: WantedLimits) -> None:
        if shutil.which(PROGRAM) is None:
            self._fail(f"{PROGRAM} is not in the agent's container")
            return
        try:
            self._set(wanted)
        except (OSError, subprocess.SubprocessError) as error:
            self._fail(f"the MPS control daemon does not answer: {failure_reason(error)}")

    def _fail(self, reason: str) -> None:
        if set(self._problems.values()) != {reason}:
            _log.error("MPS limits unavailable reason=%r", reason)
        self._problems = dict.fromkeys(self._gpus, reason)
        self._limits = {}

    def _set(self, wanted: WantedLimits) -> None:
        servers = [line for line in self._control.ask("get_server_list") if line.isdigit()]
        ticks, found = _now_ticks(), self._read(servers)
        lost = {
            uuid for uuid, limit in self._limits.items() if found.memory_bytes[uuid] != {limit.limit_bytes}
        }
        if lost:
            _log.error("MPS control daemon lost its limits gpus=%s", ",".join(sorted(lost)))
        commands = _commands(wanted, found, servers)
        if commands:
            self._control.ask(*commands)
            ticks, found_after = _now_ticks(), self._read(servers)
        else:
            found_after = found
        threads = _thread_problem(wanted, found_after)
        for uuid in self._gpus:
            problem = _memory_problem(wanted.memory_bytes[uuid], found_after.memory_bytes[uuid]) or threads
            confirmed = ConfirmedLimit(gpu=uuid, limit_bytes=wanted.memory_bytes[uuid], since_ticks=ticks)
            self._note(confirmed, found.memory_bytes[uuid], problem)
            if uuid in lost and not problem:
                self._problems[uuid] = LOST
                del self._limits[uuid]

    def _note(self, limit: ConfirmedLimit, before: set[int | None], problem: str) -> None:
        """Record what was read back of a GPU.

        Args:
            limit: what was wanted, and since when it was set.
            before: what was read before it was set.
            problem: why it is not in force; empty if it is.
        """
        uuid = limit.gpu
        if problem and problem != self._problems[uuid]:
            _log.error("MPS limit is not in force gpu=%s reason=%r", uuid, problem)
        self._problems[uuid] = problem
        if problem:
            self._limits.pop(uuid, None)
            return
        held = self._held.get(uuid)
        # A client that connected before the limit was raised has a lower one; before it was lowered, a higher one.
        if held is not None and before == {held.limit_bytes} and held.limit_bytes <= limit.limit_bytes:
            limit = limit.model_copy(update={"since_ticks": held.since_ticks})
        self._limits[uuid] = self._held[uuid] = limit

    def _read(self, servers: Sequence[str]) -> _Answers:
        """Ask for all limits at once: starting the program costs more than a command."""
        questions = [
            command
            for server in ("", *servers)
            for command in (
                *(_named("get_{}device_pinned_mem_limit", server, uuid) for uuid in self._gpus),
                _named("get_{}active_thread_percentage", server),
            )
        ]
        lines = self._control.ask(*questions)
        if len(lines) != len(questions):
            # A limit that was never set has no line, so no line tells of whom it is.
            lines = [""] * len(questions)
        answers = _Answers({uuid: set() for uuid in self._gpus})
        for number, line in enumerate(lines):
            position = number % (len(self._gpus) + 1)
            if position < len(self._gpus):
                answers.memory_bytes[self._gpus[position]].add(_bytes_of(line))
            else:
                answers.thread_percent.add(_percent_of(line))
        return answers


def _commands(wanted: WantedLimits, found: _Answers, servers: Sequence[str]) -> list[str]:
    """Return the commands that set what differs."""
    commands = []
    for server in ("", *servers):
        for uuid, limit_bytes in wanted.memory_bytes.items():
            if found.memory_bytes[uuid] != {limit_bytes}:
                value = f"{limit_bytes // _MEBIBYTE}M"
                commands.append(_named("set_{}device_pinned_mem_limit", server, uuid, value))
        if found.thread_percent != {float(wanted.thread_percent)}:
            commands.append(_named("set_{}active_thread_percentage", server, str(wanted.thread_percent)))
    return commands


def _named(command: str, server: str, *arguments: str) -> str:
    """Return a command for a server, or for the defaults if it has no pid."""
    name = command.format("" if server else "default_")
    return " ".join((name, *((server,) if server else ()), *arguments))


def _memory_problem(wanted_bytes: int, found: set[int | None]) -> str:
    if found == {wanted_bytes}:
        return ""
    shown = ", ".join(
        "no limit" if each is None else format_bytes(each)
        for each in sorted(found, key=lambda each: each or 0)
    )
    return f"the MPS control daemon reads back {shown} instead of the limit of {format_bytes(wanted_bytes)}"


def _thread_problem(wanted: WantedLimits, found: _Answers) -> str:
    if found.thread_percent == {float(wanted.thread_percent)}:
        return ""
    shown = ", ".join("nothing" if each is None else f"{each:g} %" for each in found.thread_percent)
    return f"the MPS control daemon reads back {shown} of the threads instead of {wanted.thread_percent} %"


def _bytes_of(line: str) -> int | None:
    found = re.fullmatch(r"(\d+)\s*([MG])B?", line.strip())
    return None if found is None else int(found[1]) * _UNITS[found[2]]


def _percent_of(line: str) -> float | None:
    return float(line) if re.fullmatch(r"\s*\d+(\.\d+)?\s*", line) else None


def _now_ticks() -> int:
    """Return the next clock tick since boot: a process that starts in it starts later than now."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS_PER_SECOND) + 1
