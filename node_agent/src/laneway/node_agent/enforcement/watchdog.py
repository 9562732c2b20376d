"""Makes sure that no container exceeds its quota for long, whether or not its processes ever connected.

It runs on the enforcer's thread. It takes each new reading of a GPU, asks the loop for the leases, attributes
the processes, and runs an :mod:`escalation <laneway.node_agent.enforcement.escalation>` per container.
Results are recorded on the loop's thread, which owns the leases.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from laneway.api.node_config import WatchdogConfig
from laneway.api.quantity import format_bytes
from laneway.node_agent.containers.record_file import is_same_container
from laneway.node_agent.enforcement.claims import check_member, claims_of
from laneway.node_agent.enforcement.enforcement_status import EnforcementStatus, record_enforcement_status
from laneway.node_agent.enforcement.escalation import Rules, Stage
from laneway.node_agent.enforcement.grace_file import SpentGrace
from laneway.node_agent.enforcement.levels import Level
from laneway.node_agent.enforcement.process_group import ProcessGroup
from laneway.node_agent.enforcement.process_owners import ProcessMemory, ProcessOwners
from laneway.node_agent.enforcement.restored_grace import RestoredGrace, spent_grace
from laneway.node_agent.enforcement.stray_containers import StrayContainers
from laneway.node_agent.enforcement.stray_status import record_strays
from laneway.node_agent.enforcement.violation import Claim
from laneway.node_agent.enforcement.watched_container import WatchedContainer
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.gpus.protocol import GPUReading
from laneway.node_agent.turns.event_recorder import EventRecorder
from laneway.node_agent.turns.gpu_turns import GPUTurns
from laneway.node_agent.turns.pending_releases import MemoryReading
from laneway.node_agent.turns.stray_report import StrayReport

_log = logging.getLogger(__name__)

_COMPUTES_RATIO = 0.05
"""A process computes if it did so for this part of the time between two readings. Less takes next to nothing from others."""


class Watchdog:
    """Watches the containers of one GPU. Call it from one thread at a time."""

    def __init__(
        self,
        gpu: str,
        node: Mapping[str, GPUTurns],
        containers: Path,
        config: WatchdogConfig,
        loop: EventLoop,
        recorder: EventRecorder,
        spent: Collection[SpentGrace] = (),
        *,
        mps_pid_file: Path,
    ) -> None:
        """Start with nothing seen.

        Args:
            gpu: the GPU's uuid.
            node: the leases of all GPUs of the node, by uuid; accessed on the loop's thread.
            containers: the folder of the containers' folders.
            config: tolerance and times.
            loop: the thread that owns the turns.
            recorder: receives events, on the loop's thread.
            spent: the grace that an earlier agent process saw containers spend on this GPU.
            mps_pid_file: where the MPS control daemon writes its pid.
        """
        self._gpu = gpu
        self._node = node
        self._turns = node[gpu]
        self._containers = containers
        self._config = config
        self._rules = Rules(
            evicts=config.action == "Evict",
            grace_seconds=config.grace_seconds,
            kill_seconds=config.kill_seconds,
        )
        self._loop = loop
        self._recorder = recorder
        self._owners = ProcessOwners(mps_pid_file=mps_pid_file)
        self._tracked: dict[str, WatchedContainer] = {}
        stops_strays = self._rules.evicts and config.foreign_processes == "Stop"
        self._strays = StrayContainers(gpu, replace(self._rules, evicts=stops_strays))
        self._restored = RestoredGrace(spent)
        self._last: GPUReading | None = None
        self._logged_foreign: frozenset[int] = frozenset()
        self._report = StrayReport()

    @property
    def active(self) -> bool:
        """Return whether an escalation is in progress, so that the next check should not wait for a new
        reading."""
        return self._strays.active or any(
            tracked.violation is not None or tracked.group.stage not in (Stage.COMPLIANT, Stage.WARNED)
            for tracked in self._tracked.values()
        )

    def check(
        self, reading: GPUReading | None, level: Level, now_seconds: float, spared_strays: str = ""
    ) -> None:
        """Check the containers once.

        Args:
            reading: the GPU's last reading; None while it does not answer.
            level: the level in force on it.
            now_seconds: CLOCK_MONOTONIC.
            spared_strays: why no container without a share is stopped now; empty if they are.

        Raises:
            TimeoutError: the loop does not answer.
        """
        fresh = reading is not None and reading is not self._last
        if not fresh and reading is not None and not self.active:
            return
        self._last = reading
        claims, full, uncovered = self._loop.ask(partial(claims_of, self._turns, self._containers))
        self._track(claims, now_seconds)
        memory = None
        if fresh and reading is not None and not reading.processes_hidden:
            memory = self._owners.attribute(reading.process_bytes, claims)
            self._log_foreign(memory.foreign)
        if fresh and reading is not None:
            self._loop.post(partial(self._turns.readings.record, _memory_reading(reading, memory)))
        lacking = uncovered | {
            key for key, quota in full.items() if self._may_be_full(key, quota, memory, reading)
        }
        for tracked in self._tracked.values():
            urgent = bool(lacking - {tracked.claim.record.key})
            if memory is not None and reading is not None:
                tracked.check_turns(memory, reading, self._config)
            tracked.step(memory, now_seconds, self._config, self._rules, urgent=urgent)
            self._publish(tracked, tracked.status(level, reading, self._config))
        self._check_strays(memory, now_seconds, spared_strays, urgent=bool(lacking))

    def _may_be_full(
        self, key: str, quota_bytes: int, memory: ProcessMemory | None, reading: GPUReading | None
    ) -> bool:
        """Return whether a container that says so can have found the GPU full within its quota."""
        if reading is None:
            return True
        own = {} if memory is None else memory.by_claim.get((self._gpu, key), {})
        return self._turns.gpu.memory_bytes - reading.used_bytes + sum(own.values()) < quota_bytes

    def spent_grace(self) -> Iterator[SpentGrace]:
        """Return the grace that containers have spent."""
        yield from self._restored
        for key, tracked in self._tracked.items():
            yield spent_grace(self._gpu, key, tracked.claim.record.pod_uid, tracked.group)
        for container, group in self._strays.groups.items():
            yield spent_grace(self._gpu, "", container.pod, group)

    def _check_strays(
        self, memory: ProcessMemory | None, now_seconds: float, spared: str, *, urgent: bool
    ) -> None:
        for container in () if memory is None else memory.strays:
            if container not in self._strays.groups:
                self._restored.restore(
                    self._strays.track(container), "", container.pod, container.cgroup, now_seconds
                )
        if memory is not None:
            self._restored.forget()  # what is not there any more has ended
        found = None if memory is None else memory.strays
        self._strays.check(found, now_seconds, urgent=urgent, spared=spared)
        report = StrayReport(self._strays.uses(), len(self._logged_foreign))
        if report != self._report or report.pods:
            self._report = report
            self._loop.post(partial(record_strays, self._node, self._gpu, report, self._recorder))

    def _track(self, claims: tuple[Claim, ...], now_seconds: float) -> None:
        """Keep one entry per container; a key with a new owner starts over."""
        before, self._tracked = self._tracked, {}
        for claim in claims:
            key = claim.record.key
            tracked = before.get(key)
            if tracked is not None and is_same_container(tracked.claim.record, claim.record):
                tracked.claim, tracked.group.check_member = claim, partial(check_member, claim)
                self._tracked[key] = before.pop(key)
            else:
                group = ProcessGroup(claim.name, partial(check_member, claim), claim.record.launcher)
                self._restored.restore(group, key, claim.record.pod_uid, "", now_seconds)
                self._tracked[key] = WatchedContainer(claim, group)
        for tracked in before.values():
            tracked.group.close()

    def _publish(self, tracked: WatchedContainer, status: EnforcementStatus) -> None:
        if status != tracked.published:
            tracked.published = status
            self._loop.post(
                partial(record_enforcement_status, self._turns, tracked.claim, status, self._recorder)
            )

    def _log_foreign(self, foreign: Mapping[int, int]) -> None:
        for pid in sorted(foreign.keys() - self._logged_foreign):
            _log.warning(
                "process in no pod uses the GPU gpu=%s pid=%d command=%r memory=%r",
                self._turns.gpu.uuid,
                pid,
                _name_of(pid),
                format_bytes(foreign[pid]),
            )
        self._logged_foreign = frozenset(foreign)


def _memory_reading(reading: GPUReading, memory: ProcessMemory | None) -> MemoryReading | None:
    """Return what the turn scheduler needs to know; None if the reading does not list processes."""
    if memory is None:
        return None
    container_bytes = {key: sum(by_pid.values()) for (_, key), by_pid in memory.by_claim.items()}
    utilization = reading.process_utilization or {}
    computing = frozenset(
        key
        for (_, key), by_pid in memory.by_claim.items()
        if any(utilization.get(pid, 0.0) >= _COMPUTES_RATIO for pid in by_pid)
    )
    return MemoryReading(reading.taken_seconds, reading.process_bytes, container_bytes, computing)


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "ended"
