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


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the program."""

    found: Found | None = None
    problem: str = ""
    """Why it found nothing, as a clause."""

    interrupted: bool = False
    """Something else ended it by SIGKILL: the kernel when memory is short, or the end of the agent."""


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
        too_late = False
        try:
            output, errors = process.communicate(timeout=self._limit_seconds + _KILL_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            try:
                output, errors = process.communicate(timeout=_KILL_SECONDS)
            except subprocess.TimeoutExpired:
                return Run(problem=f"it did not end, not even by SIGKILL (process {process.pid})")
            too_late = True
        *_, last = output.splitlines() or [""]
        if process.returncode == 0:
            found = json.loads(last)
            return Run(Found(int(found["total_bytes"]), dict(found["beyond"])))
        problem = _problem(process.returncode, self._limit_seconds, last, errors)
        return Run(problem=problem, interrupted=process.returncode == -signal.SIGKILL and not too_late)


def _problem(status: int, limit_seconds: int, last_call: str, errors: str) -> str:
    """Return how a run ended that found nothing, as a clause."""
    place = f" in {last_call}" if last_call else " before its first call of the driver"
    if status == -signal.SIGALRM:
        return f"it did not end within {limit_seconds} s,{place}"
    if status < 0:
        return f"it was ended by {signal.Signals(-status).name}{place}"
    message = errors.strip().splitlines()[-1:] or [f"it ended with status {status}{place}"]
    return message[0][:500]
