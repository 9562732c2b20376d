"""Watches the GPUs from a thread of its own: how they do, and whether they may be used.

    XIDs (as they come) ──┐
    readings (each look) ─┴─▶ quarantine.after_look ─▶ health.json ─▶ inventory, GPUNode, metrics

What is remembered is on the disk before anybody is told, so that no crash makes a GPU healthy.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from laneway.api.health_config import HealthConfig
from laneway.node_agent.clock import Clock
from laneway.node_agent.gpus.deadline import DeadlineCaller
from laneway.node_agent.gpus.health_file import HealthFile, HealthFileError, state_of
from laneway.node_agent.gpus.protocol import GPUError, GPUFacts, GPUReading, GPUSource, XidEvent
from laneway.node_agent.gpus.quarantine import GPUState, Look, after_look, warning_of
from laneway.node_agent.gpus.xid_listener import XidListener
from laneway.node_agent.gpus.xids import XidClass, describe, severity_of
from laneway.node_agent.recovery.processes import boot_id

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GPUHealth:
    """What was seen of a GPU last."""

    healthy: bool = True
    reason: str = ""
    """Why it is not healthy, or what should be seen to while it is."""

    unhealthy_since_seconds: float | None = None
    """CLOCK_REALTIME; None while it is healthy."""

    reading: GPUReading | None = None
    """None while it does not answer."""

    xids: Mapping[int, int] = field(default_factory=dict)
    """How often each XID came since the agent began."""


class GPUMonitor:
    """Looks at all GPUs every few seconds, and at once after an XID. A driver call that hangs does not keep it from the
    other GPUs for long."""

    def __init__(
        self,
        source: GPUSource,
        gpus: tuple[GPUFacts, ...],
        health_changed: Callable[[], None],
        file: HealthFile,
        clock: Clock,
        config: HealthConfig,
    ) -> None:
        """Take over what the agent before knew; nothing is asked of a GPU before :meth:`start`."""
        self._source = source
        self._health_changed = health_changed
        self._file = file
        self._clock = clock
        self._config = config
        self._boot_id = boot_id()
        self._callers: dict[str, DeadlineCaller[GPUReading]] = {
            gpu.uuid: DeadlineCaller(f"GPU {gpu.uuid}", config.answer_seconds) for gpu in gpus
        }
        self._states, self._absent, self._rebooted = self._remembered()
        self._unsaved = self._rebooted
        self._counts: dict[str, Counter[int]] = {uuid: Counter() for uuid in self._callers}
        self._struck_seconds: dict[str, float] = {}
        """CLOCK_MONOTONIC of each GPU's last XID that mattered."""

        self._health = {uuid: self._health_of(uuid, None) for uuid in self._callers}
        self._lock = threading.Lock()
        """Held while states and health change, and while others are told, so that they are told in order."""

        self._look_now = threading.Event()
        self._stopped = threading.Event()
        self._listener = XidListener(source, self._heard)
        self._thread = threading.Thread(target=self._run, name="gpu-monitor", daemon=True)

    def health(self, uuid: str) -> GPUHealth:
        """Return what was seen of a GPU last. May be called from any thread."""
        return self._health[uuid]

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()
        self._listener.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()
        self._look_now.set()
        self._listener.stop()

    def look(self) -> None:
        """Look at every GPU once, and tell if the health of one has changed."""
        looks = {uuid: self._look_at(uuid) for uuid in self._callers}
        with self._lock:
            # A look that began before an XID came says nothing about the time after it.
            valid = {uuid: look for uuid, look in looks.items() if not self._is_outdated(uuid, look)}
            self._take_in(valid)
            self._rebooted = self._rebooted and len(valid) < len(looks)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._look_now.clear()
            try:
                self.look()
            except Exception:
                _log.exception("looking at the GPUs failed; it is tried again")
            self._look_now.wait(self._config.look_seconds)

    def _heard(self, events: tuple[XidEvent, ...]) -> None:
        """Take in XIDs, on the listener's thread: a call about a GPU in trouble may keep the monitor's own for a while."""
        now = Look(self._clock.monotonic(), self._clock.realtime())
        with self._lock:
            looks: dict[str, Look] = {}
            for event in events:
                if event.uuid not in self._callers:
                    _log.warning(
                        "%s came from %s, which is no GPU of ours", describe(event.number), event.uuid
                    )
                    continue
                self._counts[event.uuid][event.number] += 1
                if severity_of(event.number, self._config) is XidClass.IGNORED:
                    _log.warning("GPU %s: %s; it stays in use", event.uuid, describe(event.number))
                else:
                    self._struck_seconds[event.uuid] = now.monotonic_seconds
                    earlier = looks.get(event.uuid, now)
                    looks[event.uuid] = replace(earlier, xids=(*earlier.xids, event.number))
            self._take_in(looks)
        self._look_now.set()

    def _is_outdated(self, uuid: str, look: Look) -> bool:
        return look.monotonic_seconds < self._struck_seconds.get(uuid, look.monotonic_seconds)

    def _look_at(self, uuid: str) -> Look:
        look = Look(
            self._clock.monotonic(),
            self._clock.realtime(),
            rebooted=self._rebooted,
            cleared=self._file.asked_to_clear(uuid),
        )
        try:
            return replace(look, reading=self._callers[uuid].call(lambda: self._source.read(uuid)))
        except GPUError as error:
            return replace(look, error=error)

    def _take_in(self, looks: Mapping[str, Look]) -> None:
        """Draw the conclusions, remember them, and tell. Called with the lock."""
        before = self._health
        states = {uuid: after_look(self._states[uuid], look, self._config) for uuid, look in looks.items()}
        self._unsaved |= any(_gist(states[uuid]) != _gist(self._states[uuid]) for uuid in states)
        self._states |= states
        self._save([uuid for uuid, look in looks.items() if look.cleared])
        self._health = before | {
            uuid: self._health_of(uuid, before[uuid].reading if look.xids else look.reading)
            for uuid, look in looks.items()
        }
        changed = [uuid for uuid in looks if _seen(self._health[uuid]) != _seen(before[uuid])]
        for uuid in changed:
            self._log_change(uuid, before[uuid])
        if changed:
            self._health_changed()

    def _health_of(self, uuid: str, reading: GPUReading | None) -> GPUHealth:
        xids = dict(self._counts[uuid])
        quarantine = self._states[uuid].quarantine
        if quarantine is None:
            warning = "" if reading is None else warning_of(reading.errors)
            return GPUHealth(reason=warning, reading=reading, xids=xids)
        return GPUHealth(
            healthy=False,
            reason=quarantine.reason(self._config),
            unhealthy_since_seconds=quarantine.since_seconds,
            reading=reading,
            xids=xids,
        )

    def _log_change(self, uuid: str, before: GPUHealth) -> None:
        health = self._health[uuid]
        if not health.healthy:
            _log.error("GPU %s is unhealthy: %s", uuid, health.reason)
        elif not before.healthy:
            _log.info("GPU %s is healthy again", uuid)
        elif health.reason:
            _log.warning("GPU %s: %s", uuid, health.reason)

    def _remembered(self) -> tuple[dict[str, GPUState], dict[str, GPUState], bool]:
        """Return what the agent before knew, of GPUs that are there and of others, and whether the node was booted since.

        A GPU that is not there may come back without a boot, and no sounder for it.
        """
        try:
            record = self._file.read()
        except HealthFileError as error:
            _log.error("%s; all GPUs count as healthy until they are looked at", error)
            record = None
        if record is None:
            return {uuid: GPUState() for uuid in self._callers}, {}, False
        known = {uuid: state_of(gpu) for uuid, gpu in record.gpus.items()}
        there = {uuid: known.pop(uuid, GPUState()) for uuid in self._callers}
        rebooted = record.boot_id != self._boot_id
        return there, {} if rebooted else known, rebooted

    def _save(self, cleared: list[str]) -> None:
        try:
            if self._unsaved:
                self._file.write(self._boot_id, {**self._absent, **self._states})
                self._unsaved = False
            for uuid in cleared:
                self._file.cleared(uuid)
                _log.warning("GPU %s was cleared by an operator", uuid)
        except OSError as error:
            _log.error(
                "%s cannot be written: %s; a restart of the agent would forget which GPUs are unhealthy",
                self._file.path,
                error,
            )


def _gist(state: GPUState) -> tuple[object, ...]:
    """Return what of a state is remembered."""
    return state.quarantine, state.uncorrected


def _seen(health: GPUHealth) -> tuple[object, ...]:
    """Return what of it others are told at once."""
    return health.healthy, health.reason, health.unhealthy_since_seconds
