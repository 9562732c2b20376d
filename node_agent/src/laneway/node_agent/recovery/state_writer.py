"""Writes the state file soon after a change, on its own thread, because the disk may be slow."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from laneway.node_agent.atomic_file import write_atomically
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.processes import boot_id
from laneway.node_agent.recovery.state import AgentState, GPUState, gpu_state
from laneway.node_agent.turns.gpu_turns import GPUTurns

_log = logging.getLogger(__name__)


class StateWriter:
    """Keeps the state file current."""

    def __init__(
        self,
        path: Path,
        gpus: Mapping[str, GPUTurns],
        loop: EventLoop,
        settle_seconds: float = 0.05,
        interval_seconds: float = 10.0,
    ) -> None:
        """Prepare; writing begins with :meth:`start`.

        Args:
            path: the file.
            gpus: the GPUs whose state is saved.
            loop: the thread that owns them.
            settle_seconds: pause between two writes, so that a burst of changes costs one write.
            interval_seconds: longest time without a write, because counters change all the time.
        """
        self._path = path
        self._gpus = gpus
        self._loop = loop
        self._settle_seconds = settle_seconds
        self._interval_seconds = interval_seconds
        self._boot_id = boot_id()
        self._changed = threading.Event()
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        """Held while the file is written: two writes would share a temporary file."""

        self._thread = threading.Thread(target=self._run, name="state-writer", daemon=True)

    def start(self) -> None:
        """Start writing."""
        self._thread.start()

    def changed(self) -> None:
        """Request a write. Cheap; called on the loop's thread."""
        self._changed.set()

    def close(self) -> None:
        """Write a last time. Called on the loop's thread, when the loop has ended."""
        self._stopped.set()
        self._changed.set()
        try:
            with self._lock:
                self._put(tuple(gpu_state(turns) for turns in self._gpus.values()))
        except OSError as error:
            _log.error("cannot write state file path=%s error=%r", self._path, str(error))

    def write(self) -> None:
        """Write the current state.

        Raises:
            OSError: the file cannot be written.
            TimeoutError: the loop does not answer.
        """
        # GPU by GPU, so that the loop is occupied for one GPU's sessions at a time.
        states = tuple(self._loop.ask(partial(gpu_state, turns)) for turns in self._gpus.values())
        with self._lock:
            if not self._stopped.is_set():
                self._put(states)

    def _put(self, states: tuple[GPUState, ...]) -> None:
        text = AgentState(boot_id=self._boot_id, gpus=states).model_dump_json()
        write_atomically(self._path, text, mode=0o600)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._changed.wait(self._interval_seconds)
            self._changed.clear()
            began_seconds = time.monotonic()
            try:
                self.write()
            except OSError as error:  # also TimeoutError
                _log.error("cannot write state file path=%s error=%r", self._path, str(error))
            except Exception:
                _log.exception("cannot write state file path=%s, will retry", self._path)
            # At most a tenth of the time, so that constant changes do not keep the loop from turns.
            took_seconds = time.monotonic() - began_seconds
            self._stopped.wait(max(self._settle_seconds, 9 * took_seconds))
