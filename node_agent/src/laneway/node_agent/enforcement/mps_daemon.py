"""Supervises NVIDIA's MPS control daemon: ``nvidia-cuda-mps-control -f`` as a child process.

This is not done by the agent but by a process that outlives it, because the daemon's end is the end of its
clients' work. The daemon starts a server when the first client connects.

A daemon that another process started is supervised like a child: replacing it would end its clients' work.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from laneway.node_agent.enforcement.mps_control import PROGRAM, MPSControl, MPSFolders

_log = logging.getLogger(__name__)

NOT_STARTED = "the MPS control daemon has not been started yet"
_OUTPUT_TAIL_BYTES = 2000


@dataclass(frozen=True, slots=True)
class MPSTiming:
    """Timing of the supervision, in seconds."""

    answer: float = 10.0
    """Time limit for the answer to a command."""
    start: float = 20.0
    """Time limit from the start to the first answer."""
    check_interval: float = 5.0
    """Interval between checks of a running daemon."""
    late_answers: int = 6
    """A daemon that runs and does not answer so many checks in a row is replaced: on a busy node one may be late."""
    min_backoff: float = 1.0
    max_backoff: float = 60.0
    settled: float = 60.0
    """A daemon that ran this long is restarted without back-off."""
    quit: float = 10.0
    """Time limit for the daemon and its servers to quit."""


class MPSDaemon:
    """Supervises one daemon for the node's GPUs, on its own thread."""

    def __init__(
        self,
        folders: MPSFolders,
        gpus: Sequence[str],
        changed: Callable[[], None],
        timing: MPSTiming | None = None,
    ) -> None:
        """Prepare; nothing is started yet.

        Args:
            folders: its own, and its clients'.
            gpus: the uuids of the GPUs that it serves.
            changed: called on the supervising thread when :attr:`problem` changes.
            timing: time limits and intervals.
        """
        self.problem = NOT_STARTED
        """Why clients have no daemon now, as a clause; empty while they have one."""

        self._folders = folders
        self._changed = changed
        self._timing = timing or MPSTiming()
        self._gpus = ",".join(gpus)
        self._control = MPSControl(folders, self._timing.answer)
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="mps-daemon", daemon=True)

    def start(self) -> None:
        """Start supervising."""
        self._thread.start()

    def stop(self) -> None:
        """Quit the daemon and its servers; kill them if they take too long."""
        self._stopped.set()
        self._thread.join()
        if self._child is None:
            return
        with suppress(OSError, subprocess.SubprocessError):
            self._control.ask("quit")
        for end in (self._child.terminate, self._child.kill):
            try:
                self._child.wait(self._timing.quit)
                return
            except subprocess.TimeoutExpired:
                end()
        self._child.wait()

    def _supervise(self) -> None:
        backoff_seconds = self._timing.min_backoff
        while not self._stopped.is_set():
            ran_seconds = self._run_once()
            if ran_seconds >= self._timing.settled:
                backoff_seconds = self._timing.min_backoff
            self._stopped.wait(backoff_seconds)
            backoff_seconds = min(2 * backoff_seconds, self._timing.max_backoff)

    def _run_once(self) -> float:
        """Run a daemon until it ends or is stopped. Return for how long it answered, in seconds."""
        if shutil.which(PROGRAM) is None:
            self._set_problem(f"{PROGRAM} is not in this container")
            return 0.0
        if not self._answers():
            try:
                self._launch()
            except OSError as error:
                self._set_problem(f"{PROGRAM} cannot be started: {error}")
                return 0.0
            if not self._await_start():
                self._set_problem(f"the MPS control daemon does not answer: {self._end()}")
                return 0.0
        self._set_problem("")
        checks = self._watch()
        if not self._stopped.is_set():
            self._set_problem(f"the MPS control daemon ended: {self._end()}")
        return checks * self._timing.check_interval

    def _watch(self) -> int:
        """Check a daemon until it has ended, does not answer for long, or is to be stopped. Return the number of checks.

        Replacing it ends its clients' work, so one late answer is no reason.
        """
        checks = late = 0
        while late < self._timing.late_answers and not self._stopped.wait(self._timing.check_interval):
            if self._child is not None and self._child.poll() is not None:
                break
            answers = self._answers()
            if answers is False:
                break
            checks, late = checks + 1, 0 if answers else late + 1
            if late:
                _log.warning(
                    "MPS control daemon does not answer checks=%d most=%d", late, self._timing.late_answers
                )
        return checks

    def _launch(self) -> None:
        self._folders.make()
        for left in self._folders.pipe.iterdir():
            left.unlink()
        with self._output_file.open("wb") as output:
            self._child = subprocess.Popen(
                [PROGRAM, "-f"],
                env={**self._control.environment, "CUDA_VISIBLE_DEVICES": self._gpus},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def _output_file(self) -> Path:
        return self._folders.log / "printed"

    def _await_start(self) -> bool:
        checks = max(1, round(self._timing.start / 0.2))
        for _ in range(checks):
            if self._child is None or self._child.poll() is not None or self._stopped.is_set():
                return False
            if self._answers():
                return True
            self._stopped.wait(0.2)
        return False

    def _answers(self) -> bool | None:
        """Return whether there is a daemon that answers; None: it is late, or its program could not be run."""
        try:
            self._control.ask("get_server_list")
        except subprocess.CalledProcessError:
            return False
        except (OSError, subprocess.SubprocessError):
            return None
        self._share()
        return True

    def _share(self) -> None:
        try:
            self._folders.share()
        except OSError as error:
            _log.error("clients cannot reach the MPS control daemon error=%r", str(error))

    def _end(self) -> str:
        """Make sure that the child has ended, and return how it ended."""
        child, self._child = self._child, None
        if child is None:
            return "another process had started it"
        if child.poll() is None:
            child.kill()
        status = child.wait()
        words = ""
        with suppress(OSError):  # somebody may have cleaned the folder of logs
            words = self._output_file.read_bytes()[-_OUTPUT_TAIL_BYTES:].decode(errors="replace").strip()
        last = words.splitlines()[-1] if words else "it printed nothing"
        return f"{'signal' if status < 0 else 'exit status'} {abs(status)}, {last}"

    def _set_problem(self, problem: str) -> None:
        if problem == self.problem:
            return
        self.problem = problem
        if problem:
            _log.error("MPS control daemon unavailable reason=%r", problem)
        else:
            _log.info("MPS control daemon serves")
        self._changed()
