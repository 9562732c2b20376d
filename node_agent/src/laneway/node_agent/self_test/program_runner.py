"""Runs the self-test's program as a child of the agent, which neither its crash nor its hang reaches."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from laneway.node_agent.self_test import cuda_program

PROGRAM = Path(cuda_program.__file__)
_KILL_SECONDS = 5.0
"""How long a killed process may take to end. One that waits inside the kernel's driver may never end."""


@dataclass(frozen=True, slots=True)
class Found:
    """What the program found."""

    total_bytes: int
    beyond: Mapping[str, int]
    """The driver's result for each request beyond the quota, by the way in which the memory was asked for."""

    own: tuple[str, ...] = ()
    """Calls with their version that cuGetProcAddress answered with the driver's own function."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the program."""

    found: Found | None = None
    problem: str = ""
    """Why it found nothing, as a clause."""

    killed: bool = False
    """It was ended by SIGKILL, which is the kernel's doing when memory is short."""

    perhaps_chance: bool = False
    """A busy node can be the reason: it took too long, or the GPU had no memory left."""


class ProgramRunner:
    """Runs the program, one at a time."""

    def __init__(self, limit_seconds: int) -> None:
        """Prepare; a run takes at most the limit, and a little longer if it has to be killed."""
        self._limit_seconds = limit_seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._closed = False

    def run(self, uuid: str, raw_uuid: bytes, beyond_bytes: int, preload: Path | None = None) -> Run:
        """Run the program on a GPU.

        Args:
            uuid: the GPU, as NVML names it.
            raw_uuid: its 16 bytes.
            beyond_bytes: what it asks for in each way, beside a few MiB; 0: nothing.
            preload: the library that is loaded into it.
        """
        command = [sys.executable, "-I", "-S", str(PROGRAM)]
        command += [raw_uuid.hex(), str(beyond_bytes), str(self._limit_seconds)]
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": uuid, "CUDA_CACHE_DISABLE": "1"}
        if preload is not None:
            environment["LD_PRELOAD"] = str(preload)
        with self._lock:
            if self._closed:
                return Run(problem="the agent ends")
            if self._process is not None and self._process.poll() is None:
                return Run(problem=f"an earlier one, process {self._process.pid}, does not end")
            process = self._process = subprocess.Popen(
                command,
                env=environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        return self._outcome(process)

    def close(self) -> None:
        """End the program that runs. No other is started."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                self._process.kill()

    def _outcome(self, process: subprocess.Popen[str]) -> Run:
        hung = False
        try:
            output, errors = process.communicate(timeout=self._limit_seconds + _KILL_SECONDS)
        except subprocess.TimeoutExpired:
            # The library blocks signals while it holds a lock, so a deadlock there outlives the alarm.
            hung = True
            process.kill()
            try:
                output, errors = process.communicate(timeout=_KILL_SECONDS)
            except subprocess.TimeoutExpired:
                return Run(problem=f"it did not end, not even by SIGKILL (process {process.pid})")
        *_, last = output.splitlines() or [""]
        status = process.returncode
        if status == 0:
            found = _found(last)
            if found is not None:
                return Run(found)
        if hung:
            status = -signal.SIGALRM
        return Run(
            problem=_problem(status, self._limit_seconds, last, errors),
            killed=status == -signal.SIGKILL,
            perhaps_chance=status in (-signal.SIGALRM, cuda_program.OUT_OF_MEMORY_STATUS),
        )


def _found(last_line: str) -> Found | None:
    """Return what the program wrote last; None if something in it ended it before, as ``exit`` does."""
    try:
        found = json.loads(last_line)
        return Found(int(found["total_bytes"]), dict(found["beyond"]), tuple(found["own"]))
    except (ValueError, KeyError, TypeError):
        return None


def _problem(status: int, limit_seconds: int, last_call: str, errors: str) -> str:
    """Return how a run ended that found nothing, as a clause."""
    place = f" in {last_call}" if last_call else " before its first call of the driver"
    if status == -signal.SIGALRM:
        return f"it did not end within {limit_seconds} s,{place}"
    if status < 0:
        return f"it was ended by {_signal_name(-status)}{place}"
    message = errors.strip().splitlines()[-1:] or [f"it ended with status {status}{place}"]
    return message[0][:500]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"
