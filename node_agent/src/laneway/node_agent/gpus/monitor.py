"""Monitors the health of the GPUs on its own thread, and decides which may be used.

    XIDs (as they come) ────┐
    readings (each check) ──┴─▶ quarantine.after_check ─▶ health.json ─▶ inventory, GPUNode, metrics

A state is on the disk before it is reported, so no crash makes a GPU healthy.
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
from laneway.node_agent.gpus.protocol import GPUError, GPUInfo, GPUReading, GPUSource, XidEvent
from laneway.node_agent.gpus.quarantine import GPUState, HealthCheck, after_check, warning_of
from laneway.node_agent.gpus.xid_listener import XidListener
from laneway.node_agent.gpus.xids import XidClass, describe, severity_of
from laneway.node_agent.processes import boot_id

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GPUHealth:
    """The last observed health of a GPU."""

    healthy: bool = True
    reason: str = ""
    """Why it is unhealthy, or a warning while it is healthy."""

    unhealthy_since_seconds: float | None = None
    """CLOCK_REALTIME; None while it is healthy."""

    reading: GPUReading | None = None
    """None while it does not answer."""

    xids: Mapping[int, int] = field(default_factory=dict)
    """Counts of each XID since the agent started."""

    last_xids: Mapping[int, float] = field(default_factory=dict)
    """CLOCK_REALTIME of the last of each."""


class GPUMonitor:
    """Checks all GPUs every few seconds, and at once after an XID. A hanging driver call delays the other
    GPUs only briefly."""

    def __init__(
        self,
        source: GPUSource,
        gpus: tuple[GPUInfo, ...],
        health_changed: Callable[[], None],
        file: HealthFile,
        clock: Clock,
        config: HealthConfig,
    ) -> None:
        """Restore the state of an earlier agent process. No GPU is read before :meth:`start`."""
        self._source = source
        self._health_changed = health_changed
        self._file = file
        self._clock = clock
        self._config = config
        self._boot_id = boot_id()
        self._callers: dict[str, DeadlineCaller[GPUReading]] = {
            gpu.uuid: DeadlineCaller(f"GPU {gpu.uuid}", config.answer_seconds) for gpu in gpus
        }
        self._states, self._absent, self._rebooted = self._load()
        self._unsaved = self._rebooted
        self._counts: dict[str, Counter[int]] = {uuid: Counter() for uuid in self._callers}
        self._last_xids: dict[str, dict[int, float]] = {uuid: {} for uuid in self._callers}
        self._last_xid_seconds: dict[str, float] = {}
        """CLOCK_MONOTONIC of each GPU's last relevant XID."""

        self._health = {uuid: self._health_of(uuid, None) for uuid in self._callers}
        self._lock = threading.Lock()
        """Held while states and health change and are reported, so that reports are in order."""

        self._check_now = threading.Event()
        self._stopped = threading.Event()
        self._listener = XidListener(source, self._on_xids)
        self._thread = threading.Thread(target=self._run, name="gpu-monitor", daemon=True)

    def health(self, uuid: str) -> GPUHealth:
        """Return the last observed health of a GPU. May be called from any thread."""
        return self._health[uuid]

    def start(self) -> None:
        """Start monitoring."""
        self._thread.start()
        self._listener.start()

    def stop(self) -> None:
        """Stop monitoring."""
        self._stopped.set()
        self._check_now.set()
        self._listener.stop()

    def check_soon(self) -> None:
        """Check all GPUs now instead of when the next check is due. May be called from any thread."""
        self._check_now.set()

    def check(self) -> None:
        """Check every GPU once, and report changes of health."""
        checks = {uuid: self._check(uuid) for uuid in self._callers}
        with self._lock:
            # A check that began before an XID says nothing about the time after it.
            valid = {uuid: check for uuid, check in checks.items() if not self._is_outdated(uuid, check)}
            self._apply(valid)
            self._rebooted = self._rebooted and len(valid) < len(checks)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._check_now.clear()
            try:
                self.check()
            except Exception:
                _log.exception("checking GPUs failed, will retry")
            self._check_now.wait(self._config.probe_seconds)

    def _on_xids(self, events: tuple[XidEvent, ...]) -> None:
        """Apply XIDs on the listener's thread, because a driver call may block the monitor's thread for a
        while."""
        now = HealthCheck(self._clock.monotonic(), self._clock.realtime())
        with self._lock:
            checks: dict[str, HealthCheck] = {}
            for event in events:
                if event.uuid not in self._callers:
                    _log.warning("XID of an unknown GPU gpu=%s xid=%r", event.uuid, describe(event.number))
                    continue
                self._counts[event.uuid][event.number] += 1
                self._last_xids[event.uuid][event.number] = now.realtime_seconds
                if severity_of(event.number, self._config) is XidClass.IGNORED:
                    _log.warning("XID ignored gpu=%s xid=%r", event.uuid, describe(event.number))
                else:
                    self._last_xid_seconds[event.uuid] = now.monotonic_seconds
                    earlier = checks.get(event.uuid, now)
                    checks[event.uuid] = replace(earlier, xids=(*earlier.xids, event.number))
            self._apply(checks)
        self._check_now.set()

    def _is_outdated(self, uuid: str, check: HealthCheck) -> bool:
        return check.monotonic_seconds < self._last_xid_seconds.get(uuid, check.monotonic_seconds)

    def _check(self, uuid: str) -> HealthCheck:
        check = HealthCheck(
            self._clock.monotonic(),
            self._clock.realtime(),
            rebooted=self._rebooted,
            cleared=self._file.clear_requested(uuid),
        )
        try:
            reading = self._callers[uuid].call(lambda: self._source.read(uuid))
            return replace(check, reading=replace(reading, taken_seconds=check.monotonic_seconds))
        except GPUError as error:
            return replace(check, error=error)

    def _apply(self, checks: Mapping[str, HealthCheck]) -> None:
        """Compute, save and report new states. Called with the lock held."""
        before = self._health
        states = {
            uuid: after_check(self._states[uuid], check, self._config) for uuid, check in checks.items()
        }
        self._unsaved |= any(
            _saved_fields(states[uuid]) != _saved_fields(self._states[uuid]) for uuid in states
        )
        self._states |= states
        self._save([uuid for uuid, check in checks.items() if check.cleared])
        self._health = before | {
            uuid: self._health_of(uuid, before[uuid].reading if check.xids else check.reading)
            for uuid, check in checks.items()
        }
        changed = [
            uuid
            for uuid in checks
            if _published_fields(self._health[uuid]) != _published_fields(before[uuid])
        ]
        for uuid in changed:
            self._log_change(uuid, before[uuid])
        if changed:
            self._health_changed()

    def _health_of(self, uuid: str, reading: GPUReading | None) -> GPUHealth:
        xids, last_xids = dict(self._counts[uuid]), dict(self._last_xids[uuid])
        quarantine = self._states[uuid].quarantine
        if quarantine is None:
            warning = "" if reading is None else warning_of(reading.errors)
            return GPUHealth(reason=warning, reading=reading, xids=xids, last_xids=last_xids)
        return GPUHealth(
            healthy=False,
            reason=quarantine.reason(self._config),
            unhealthy_since_seconds=quarantine.since_seconds,
            reading=reading,
            xids=xids,
            last_xids=last_xids,
        )

    def _log_change(self, uuid: str, before: GPUHealth) -> None:
        health = self._health[uuid]
        if not health.healthy:
            _log.error("GPU unhealthy gpu=%s reason=%r", uuid, health.reason)
        elif not before.healthy:
            _log.info("GPU healthy again gpu=%s", uuid)
        elif health.reason:
            _log.warning("GPU warning gpu=%s reason=%r", uuid, health.reason)

    def _load(self) -> tuple[dict[str, GPUState], dict[str, GPUState], bool]:
        """Return the saved states of present GPUs and of others, and whether the node was booted since.

        A GPU that is absent may return without a boot, and it is no healthier then.
        """
        try:
            record = self._file.read()
        except HealthFileError as error:
            _log.error("health file ignored, all GPUs count as healthy until checked error=%r", str(error))
            record = None
        if record is None:
            return {uuid: GPUState() for uuid in self._callers}, {}, False
        known = {uuid: state_of(gpu) for uuid, gpu in record.gpus.items()}
        present = {uuid: known.pop(uuid, GPUState()) for uuid in self._callers}
        rebooted = record.boot_id != self._boot_id
        return present, {} if rebooted else known, rebooted

    def _save(self, cleared: list[str]) -> None:
        try:
            if self._unsaved:
                self._file.write(self._boot_id, {**self._absent, **self._states})
                self._unsaved = False
            for uuid in cleared:
                self._file.cleared(uuid)
                _log.warning("GPU cleared by an operator gpu=%s", uuid)
        except OSError as error:
            _log.error(
                "cannot save GPU health, a restart would forget it path=%s error=%r",
                self._file.path,
                str(error),
            )


def _saved_fields(state: GPUState) -> tuple[object, ...]:
    """Return the fields that are saved."""
    return state.quarantine, state.uncorrected


def _published_fields(health: GPUHealth) -> tuple[object, ...]:
    """Return the fields whose change is reported at once."""
    return health.healthy, health.reason, health.unhealthy_since_seconds
