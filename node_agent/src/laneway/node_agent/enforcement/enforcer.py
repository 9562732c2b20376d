"""All of enforcement: the MPS daemon where it is asked for, a watchdog for each GPU, and which level is in force."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial

from laneway.api.enforcement import Enforcement
from laneway.api.node_config import NodeConfig
from laneway.node_agent.clock import Clock
from laneway.node_agent.enforcement.capability import why_no_eviction
from laneway.node_agent.enforcement.levels import NOT_LOOKED_AT, Level, Means, level_of
from laneway.node_agent.enforcement.mps_daemon import MPSDaemon, MPSFolders
from laneway.node_agent.enforcement.watchdog import Watchdog
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.gpus.monitor import GPUHealth
from laneway.node_agent.host_folders import HostFolders
from laneway.node_agent.inventory_file import with_level
from laneway.node_agent.turns.gpu_turns import GPUTurns
from laneway.node_agent.turns.notices import Notices

_log = logging.getLogger(__name__)


class Enforcer:
    """Looks several times a second, from a thread of its own; what is not new costs nothing."""

    LOOK_SECONDS = 0.25

    def __init__(
        self,
        config: NodeConfig,
        turns: Mapping[str, GPUTurns],
        health: Callable[[str], GPUHealth],
        folders: HostFolders,
        loop: EventLoop,
        clock: Clock,
        notices: Notices,
        levels_changed: Callable[[], None],
        *,
        only_own_jobs: bool = False,
    ) -> None:
        """Start nothing yet.

        Args:
            config: what is asked of the node.
            turns: the node's GPUs, by uuid.
            health: what was seen of a GPU last; may be asked from any thread.
            folders: the host's.
            loop: the thread that owns the turns.
            clock: for durations.
            notices: told on the loop's thread.
            levels_changed: told, on the enforcer's thread, that :meth:`level` answers differently for some GPU.
            only_own_jobs: all jobs are of the agent's own user.
        """
        self._asked = Enforcement(config.enforcement.level)
        self._turns = turns
        self._health = health
        self._loop = loop
        self._clock = clock
        self._levels_changed = levels_changed
        self._no_eviction = why_no_eviction(config.watchdog.action, only_own_jobs=only_own_jobs)
        real = [turn.gpu.uuid for turn in turns.values() if not turn.gpu.simulated]
        self._daemon: MPSDaemon | None = None
        if self._asked is Enforcement.MPS and real:
            self._daemon = MPSDaemon(MPSFolders(folders.mps), real, self._look_now)
        self._watchdogs = {
            uuid: Watchdog(each, folders.containers, config.watchdog, loop, notices)
            for uuid, each in turns.items()
        }
        self._told: dict[str, Level] = {}
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="enforcer", daemon=True)

    def level(self, uuid: str) -> Level:
        """Return what is in force on a GPU. May be called from any thread."""
        health = self._health(uuid)
        if self._turns[uuid].gpu.simulated:
            no_mps = "a simulated GPU has no MPS"
        else:
            no_mps = "" if self._daemon is None else self._daemon.problem
        unread = f"the GPU does not answer: {health.reason}" if health.reason else NOT_LOOKED_AT
        return level_of(self._asked, Means(health.reading, unread, self._no_eviction, no_mps))

    def start(self) -> None:
        """Begin."""
        if self._daemon is not None:
            self._daemon.start()
        self._thread.start()

    def stop(self) -> None:
        """End; what was told to end and has not, goes on. A look that waits for the loop is not waited for."""
        self._stopped.set()
        self._wake.set()
        if self._daemon is not None:
            self._daemon.stop()

    def _look_now(self) -> None:
        self._wake.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._wake.clear()
            try:
                self._look()
            except TimeoutError:
                _log.error("the event loop does not answer; containers are looked at later")
            except Exception:
                _log.exception("looking at the containers failed; it is tried again")
            self._wake.wait(self.LOOK_SECONDS)

    def _look(self) -> None:
        levels = {uuid: self.level(uuid) for uuid in self._turns}
        if levels != self._told:
            for uuid, level in levels.items():
                if level != self._told.get(uuid):
                    because = f": {level.reason}" if level.reason else ""
                    _log.info("GPU %s: enforcement is %s%s", uuid, level.enforcement, because)
                    self._loop.post(partial(_set_level, self._turns[uuid], level))
            self._told = levels
            self._levels_changed()
        if self._asked is Enforcement.COOPERATIVE:
            return
        now_seconds = self._clock.monotonic()
        for uuid, watchdog in self._watchdogs.items():
            if self._stopped.is_set():
                return
            watchdog.look(self._health(uuid).reading, levels[uuid], now_seconds)


def _set_level(turns: GPUTurns, level: Level) -> None:
    turns.gpu = with_level(turns.gpu, level)
