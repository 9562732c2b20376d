"""Runs all enforcement: the limits of MPS if configured, a watchdog per GPU, and the level in force."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from functools import partial

from laneway.api.enforcement import Enforcement
from laneway.api.node_config import NodeConfig
from laneway.node_agent.clock import Clock
from laneway.node_agent.enforcement.capability import no_eviction_reason
from laneway.node_agent.enforcement.grace_file import GraceFile
from laneway.node_agent.enforcement.interposer import no_interposer_reason
from laneway.node_agent.enforcement.levels import NOT_READ_YET, Level, LevelInputs, level_of, with_level
from laneway.node_agent.enforcement.mps_control import MPSControl, MPSFolders
from laneway.node_agent.enforcement.mps_limits import MPSLimits, wanted_limits
from laneway.node_agent.enforcement.mps_limits_file import MPSLimitsFile
from laneway.node_agent.enforcement.stray_containers import spared_strays_reason
from laneway.node_agent.enforcement.watchdog import Watchdog
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.gpus.monitor import GPUHealth
from laneway.node_agent.host_folders import HostFolders
from laneway.node_agent.turns.event_recorder import EventRecorder
from laneway.node_agent.turns.gpu_turns import GPUTurns

_log = logging.getLogger(__name__)


class Enforcer:
    """Checks several times a second, on its own thread. A check without new readings costs nothing."""

    CHECK_SECONDS = 0.25

    def __init__(
        self,
        config: NodeConfig,
        turns: Mapping[str, GPUTurns],
        health: Callable[[str], GPUHealth],
        folders: HostFolders,
        loop: EventLoop,
        clock: Clock,
        recorder: EventRecorder,
        levels_changed: Callable[[], None],
        other_offers: Callable[[], tuple[str, ...] | None],
        interposer_problem: Callable[[], str],
        *,
        only_own_jobs: bool = False,
    ) -> None:
        """Prepare; nothing is started yet.

        Args:
            config: the node's configuration.
            turns: the node's GPUs, by uuid.
            health: returns the last health of a GPU; callable from any thread.
            folders: the host's folders.
            loop: the thread that owns the turns.
            clock: for durations.
            recorder: receives events, on the loop's thread.
            levels_changed: called on the enforcer's thread when :meth:`level` has changed for some GPU.
            other_offers: returns the GPUs of this node that other device plugins offer, None while unknown;
                callable from any thread.
            interposer_problem: returns why the interposer must not be used on real GPUs, as a clause; callable from
                any thread.
            only_own_jobs: all jobs belong to the agent's own user.
        """
        self._requested = Enforcement(config.enforcement.level)
        self._turns = turns
        self._health = health
        self._loop = loop
        self._clock = clock
        self._levels_changed = levels_changed
        self._other_offers = other_offers
        self._no_eviction = no_eviction_reason(config.watchdog.action, only_own_jobs=only_own_jobs)
        self._client_folder = folders.client
        self._interposer_problem = interposer_problem
        real = [turn.gpu.uuid for turn in turns.values() if not turn.gpu.simulated]
        self._limit_threads = config.enforcement.limit_threads
        self._mps: MPSLimits | None = None
        mps_folders = MPSFolders(folders.mps)
        if self._requested is Enforcement.MPS and real:
            limits_file = MPSLimitsFile(folders.agent_state)
            self._mps = MPSLimits(MPSControl(mps_folders), real, limits_file, self._wake_up)
        self._grace_file = GraceFile(folders.agent_state)
        spent = self._grace_file.read()
        self._watchdogs = {
            uuid: Watchdog(
                uuid,
                turns,
                folders.containers,
                config.watchdog,
                loop,
                recorder,
                [each for each in spent if each.gpu == uuid],
                mps_pid_file=mps_folders.pid_file,
            )
            for uuid in turns
        }
        self._published: dict[str, Level] = {}
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="enforcer", daemon=True)

    def level(self, uuid: str) -> Level:
        """Return the level in force on a GPU. May be called from any thread."""
        health = self._health(uuid)
        if self._turns[uuid].gpu.simulated:
            no_mps = "a simulated GPU has no MPS"
        else:
            no_mps = "" if self._mps is None else self._mps.problem(uuid)
        mps_limit = None if self._mps is None or no_mps else self._mps.limit(uuid)
        unread = f"the GPU does not answer: {health.reason}" if health.reason else NOT_READ_YET
        inputs = LevelInputs(
            health.reading, unread, self._no_eviction, self._no_interposer(uuid), no_mps, mps_limit
        )
        return level_of(self._requested, inputs)

    def _no_interposer(self, uuid: str) -> str:
        # A simulated GPU has no driver on which the library could fail.
        simulated = self._turns[uuid].gpu.simulated
        return no_interposer_reason(self._client_folder) or ("" if simulated else self._interposer_problem())

    def start(self) -> None:
        """Start."""
        if self._mps is not None:
            self._mps.start()
        self._thread.start()

    def stop(self) -> None:
        """Stop. Processes that were signalled but have not ended continue. A check that waits for the loop is
        abandoned."""
        self._stopped.set()
        self._wake.set()
        if self._mps is not None:
            self._mps.stop()

    def _wake_up(self) -> None:
        self._wake.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._wake.clear()
            try:
                self._check()
            except TimeoutError:
                _log.error("event loop does not answer, will check containers later")
            except Exception:
                _log.exception("checking containers failed, will retry")
            self._wake.wait(self.CHECK_SECONDS)

    def _check(self) -> None:
        if self._mps is not None:
            self._mps.want(self._loop.ask(partial(wanted_limits, self._turns, self._limit_threads)))
        levels = {uuid: self.level(uuid) for uuid in self._turns}
        if levels != self._published:
            for uuid, level in levels.items():
                before = self._published.get(uuid)
                if before is None or (level.enforcement, level.reason) != (before.enforcement, before.reason):
                    _log.info(
                        "enforcement level changed gpu=%s level=%s reason=%r",
                        uuid,
                        level.enforcement,
                        level.reason,
                    )
                if level != before:
                    self._loop.post(partial(_set_level, self._turns[uuid], level))
            self._published = levels
            self._levels_changed()
        if self._requested is Enforcement.COOPERATIVE:
            return
        now_seconds = self._clock.monotonic()
        offers = self._other_offers()
        for uuid, watchdog in self._watchdogs.items():
            if self._stopped.is_set():
                return
            reading = self._health(uuid).reading
            spared = spared_strays_reason(offers, mig=reading is not None and reading.mig)
            watchdog.check(reading, levels[uuid], now_seconds, spared)
        spent = (each for watchdog in self._watchdogs.values() for each in watchdog.spent_grace())
        self._grace_file.write([each for each in spent if each.spent_seconds])


def _set_level(turns: GPUTurns, level: Level) -> None:
    turns.gpu = with_level(turns.gpu, level)
