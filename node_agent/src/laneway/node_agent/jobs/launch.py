"""Runs a command as its launcher: forwards signals, and ends when the last process that it started has
ended.

Orphaned processes of the command become the launcher's children (it is their subreaper), so they still belong
to the job.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import FrameType

from laneway.node_agent.jobs.errors import JobError

_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_OF_THE_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
"""A terminal sends these to the command itself."""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
"""prctl(2)."""


def launch(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command until it and all its processes have ended. Return its exit status, or 128 plus the
    signal's number.

    Raises:
        JobError: it cannot be started.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        child = subprocess.Popen(
            command,
            env=environment,
            # A job must not outlive its share. The launcher has no other thread.
            preexec_fn=lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0),  # noqa: PLW1509
        )
    except OSError as error:
        raise JobError(f"{command[0]}: cannot be started: {error.strerror}") from error
    _pass_signals_on(child.pid)
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            break
        if pid == child.pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            for number in (*_PASSED_ON, *_OF_THE_TERMINAL):
                signal.signal(number, signal.SIG_DFL)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _pass_signals_on(pid: int) -> None:
    def pass_on(number: int, frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    def leave(number: int, frame: FrameType | None) -> None:
        """Do nothing: the terminal has sent it to the command."""

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    for number in _OF_THE_TERMINAL:
        signal.signal(number, leave if _is_in_front() else pass_on)


def _is_in_front() -> bool:
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False
