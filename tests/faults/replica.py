"""One replica of the operator as a process of its own, which can be killed, stopped and started again within milliseconds.

The processes are forked from a server that has imported the operator (``multiprocessing``'s forkserver): the
tests start hundreds of processes, which would each import the libraries otherwise. Each process runs the operator's ``main``.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import yaml

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["laneway.operator.main", "tests.faults.replica"])
_PR_SET_PDEATHSIG = 1


class Replica:
    """One replica in all of its lives."""

    def __init__(
        self,
        name: str,
        folder: Path,
        kubeconfig: Path,
        namespace: str,
        config: dict[str, Any],
        *,
        clock_ahead_seconds: float = 0.0,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.lives = 0
        self._config = folder / "operator.yaml"
        self._config.write_text(yaml.safe_dump(config))
        self._log_path = folder / "operator.log"
        self._way = yaml.safe_load(kubeconfig.read_text())
        self._kubeconfig = folder / "operator.kubeconfig"
        self._arguments = [
            *("--config", str(self._config), "--kubeconfig", str(self._kubeconfig), "--namespace", namespace)
        ]
        self._clock_ahead_seconds = clock_ahead_seconds
        self._process: ForkServerProcess | None = None

    @property
    def life(self) -> str:
        """The replica and the number of its life."""
        return f"{self.name}/{self.lives}"

    def start(self) -> None:
        """Start it, with a token that says which life of it asks."""
        self.lives += 1
        for user in self._way["users"]:
            user["user"]["token"] = self.life
        self._kubeconfig.write_text(yaml.safe_dump(self._way))
        self._process = _CONTEXT.Process(
            target=_live, args=(self._arguments, str(self._log_path), self._clock_ahead_seconds)
        )
        self._process.start()

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def pause(self) -> None:
        """SIGSTOP."""
        assert self._process is not None
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGCONT)

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.is_alive()

    @property
    def log(self) -> str:
        """All that it has logged, over all of its lives."""
        return self._log_path.read_text() if self._log_path.exists() else ""


def _live(arguments: list[str], log_path: str, clock_ahead_seconds: float) -> None:
    """Run the operator's ``main`` in this forked process, which is killed when the forkserver ends with the tests."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    log = os.open(log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if clock_ahead_seconds:
        true_time = time.time
        time.time = lambda: true_time() + clock_ahead_seconds
    from laneway.operator.main import main

    sys.exit(main(arguments))
