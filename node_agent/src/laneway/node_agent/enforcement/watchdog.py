"""Makes sure that no container exceeds its quota for long, whether or not its processes ever connected.

It runs on the enforcer's thread. It takes each new reading of a GPU, asks the loop for the leases, attributes
the processes, and runs an :mod:`escalation <laneway.node_agent.enforcement.escalation>` per container.
Results are recorded on the loop's thread, which owns the leases.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from laneway.api.enforcement import Enforcement, shortfall
from laneway.api.mps_limits import mps_limit_shortfall
from laneway.api.node_config import WatchdogConfig
from laneway.api.quantity import format_bytes
from laneway.lanes.unscheduled_use import UnscheduledUse
from laneway.node_agent.containers.record_file import is_same_container
from laneway.node_agent.enforcement.enforcement_status import EnforcementStatus, record_enforcement_status
from laneway.node_agent.enforcement.escalation import Action, Escalation, Rules, Stage
from laneway.node_agent.enforcement.grace_file import SpentGrace
from laneway.node_agent.enforcement.interposer import uninterposed_bytes
from laneway.node_agent.enforcement.levels import Level, level_of_container
from laneway.node_agent.enforcement.mps_limits import limit_holds
from laneway.node_agent.enforcement.process_group import ProcessGroup
from laneway.node_agent.enforcement.process_owners import ProcessMemory, ProcessOwners
from laneway.node_agent.enforcement.stray_containers import StrayContainers
from laneway.node_agent.enforcement.stray_status import record_strays
from laneway.node_agent.enforcement.turn_check import WARNS_ONLY, WITHOUT_TURN, observe
from laneway.node_agent.enforcement.violation import QUOTA_EXCEEDED, Claim, Violation, check_claim
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.gpus.protocol import GPUReading
from laneway.node_agent.sessions.identity import Peer, check_identity
from laneway.node_agent.turns.event_recorder import EventRecorder
from laneway.node_agent.turns.gpu_turns import GPUTurns
from laneway.node_agent.turns.pending_releases import MemoryReading
from laneway.node_agent.turns.stray_report import StrayReport

_log = logging.getLogger(__name__)

_COMPUTES_RATIO = 0.05
"""A process computes if it did so for this part of the time between two readings. Less takes next to nothing from others."""


@dataclass(slots=True)
class _TrackedContainer:
    """What is known of one container on one GPU."""

    claim: Claim
    group: ProcessGroup
    use: UnscheduledUse = field(default_factory=UnscheduledUse)
    violation: Violation | None = None
    evicted: str = ""
    eviction_message: str = ""
    published: EnforcementStatus = field(default_factory=EnforcementStatus)


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
        self._tracked: dict[str, _TrackedContainer] = {}
        stops_strays = self._rules.evicts and config.foreign_processes == "Stop"
        self._strays = StrayContainers(gpu, replace(self._rules, evicts=stops_strays))
        self._restored = {(each.key, each.pod_uid, "" if each.key else each.cgroup): each for each in spent}
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
        claims, full, uncovered = self._loop.ask(partial(_view_of, self._turns, self._containers))
        self._track(claims, now_seconds)
        memory = None
        if fresh and reading is not None and not reading.processes_hidden:
            memory = self._owners.attribute(reading.process_bytes, claims)
            self._log_foreign(memory.foreign)
        if fresh and reading is not None:
            self._loop.post(partial(self._turns.record_memory_reading, _memory_reading(reading, memory)))
        lacking = uncovered | {
            key for key, quota in full.items() if self._may_be_full(key, quota, memory, reading)
        }
        for tracked in self._tracked.values():
            urgent = bool(lacking - {tracked.claim.record.key})
            if memory is not None and reading is not None:
                self._check_turns(tracked, memory, reading)
            self._act(tracked, self._step(tracked, memory, now_seconds, urgent=urgent), urgent=urgent)
            self._publish(tracked, self._status(tracked, level, reading))
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
        yield from self._restored.values()
        for key, tracked in self._tracked.items():
            yield self._spent(key, tracked.claim.record.pod_uid, tracked.group)
        for container, group in self._strays.groups.items():
            yield self._spent("", container.pod, group)

    def _spent(self, key: str, pod_uid: str, group: ProcessGroup) -> SpentGrace:
        return SpentGrace(
            gpu=self._gpu,
            key=key,
            pod_uid=pod_uid,
            cgroup=group.cgroup,
            spent_seconds=int(group.escalation.spent_seconds),
            stops=group.escalation.stops,
        )

    def _check_strays(
        self, memory: ProcessMemory | None, now_seconds: float, spared: str, *, urgent: bool
    ) -> None:
        for container in () if memory is None else memory.strays:
            if container not in self._strays.groups:
                self._restore(self._strays.track(container), "", container.pod, container.cgroup, now_seconds)
        if memory is not None:
            self._restored.clear()  # what is not there any more has ended
        found = None if memory is None else memory.strays
        self._strays.check(found, now_seconds, urgent=urgent, spared=spared)
        report = StrayReport(self._strays.uses(), len(self._logged_foreign))
        if report != self._report or report.pods:
            self._report = report
            self._loop.post(partial(record_strays, self._node, self._gpu, report, self._recorder))

    def _restore(self, group: ProcessGroup, key: str, pod_uid: str, cgroup: str, now_seconds: float) -> None:
        saved = self._restored.pop((key, pod_uid, cgroup), None)
        if saved is not None and saved.spent_seconds:
            group.cgroup = saved.cgroup
            group.escalation = Escalation(
                Stage.WARNED,
                saved.spent_seconds,
                seen_seconds=now_seconds,
                since_seconds=now_seconds,
                stops=saved.stops,
            )

    def _track(self, claims: tuple[Claim, ...], now_seconds: float) -> None:
        """Keep one entry per container; a key with a new owner starts over."""
        before, self._tracked = self._tracked, {}
        for claim in claims:
            key = claim.record.key
            tracked = before.get(key)
            if tracked is not None and is_same_container(tracked.claim.record, claim.record):
                tracked.claim, tracked.group.check_member = claim, partial(_check_member, claim)
                self._tracked[key] = before.pop(key)
            else:
                group = ProcessGroup(claim.name, partial(_check_member, claim), claim.record.launcher)
                self._restore(group, key, claim.record.pod_uid, "", now_seconds)
                self._tracked[key] = _TrackedContainer(claim, group)
        for tracked in before.values():
            tracked.group.close()

    def _check_turns(self, tracked: _TrackedContainer, memory: ProcessMemory, reading: GPUReading) -> None:
        pids = memory.by_claim.get(tracked.claim.key, {})
        before = tracked.use.computes_without_turn
        tracked.use = observe(tracked.use, tracked.claim, reading, pids)
        if not tracked.use.computes_without_turn:
            return
        if self._config.compute_without_turn == "Stop":
            tracked.claim = replace(tracked.claim, without_turn=WITHOUT_TURN)
        elif not before:
            _log.warning("%s: %s; %s", tracked.claim.name, WITHOUT_TURN, WARNS_ONLY)

    def _step(
        self, tracked: _TrackedContainer, memory: ProcessMemory | None, now_seconds: float, *, urgent: bool
    ) -> Action:
        held = None if memory is None else memory.by_claim.get(tracked.claim.key, {})
        if held is not None and memory is not None:
            tracked.group.saw_processes(held, memory.containers.get(tracked.claim.key, frozenset()))
            if tracked.group.replaced:
                tracked.evicted = ""
        found = check_claim(tracked.claim, held, self._config.tolerance_percent, tracked.violation)
        tracked.violation = found.violation
        urgent = urgent and found.violation is not None and found.violation.reason == QUOTA_EXCEEDED
        violation = found.violation is not None if found.conclusive or urgent else None
        return tracked.group.step(
            now_seconds, violation, self._rules, urgent=urgent, extra_pids=tracked.claim.session_pids
        )

    def _act(self, tracked: _TrackedContainer, action: Action, *, urgent: bool) -> None:
        if action is Action.WARN:
            _log.warning("%s: %s", tracked.claim.name, self._warning(tracked))
            tracked.evicted = tracked.eviction_message = ""
        elif action is Action.ANNOUNCE and tracked.violation is not None:
            tracked.evicted = tracked.violation.reason
            why = f"after {self._config.grace_seconds} s of grace"
            if urgent and tracked.violation.reason == QUOTA_EXCEEDED:
                why = "because another container lacks the memory"
            if tracked.group.escalation.stops >= self._rules.stops_of_processes:
                why += ", with all processes of its container because it started others after each stop"
            tracked.eviction_message = f"stopped by the node agent {why}: {tracked.violation.text}"

    def _publish(self, tracked: _TrackedContainer, status: EnforcementStatus) -> None:
        if status != tracked.published:
            tracked.published = status
            self._loop.post(
                partial(record_enforcement_status, self._turns, tracked.claim, status, self._recorder)
            )

    def _status(
        self, tracked: _TrackedContainer, level: Level, reading: GPUReading | None
    ) -> EnforcementStatus:
        record = tracked.claim.record
        mps_limit_bytes = 0 if level.mps_limit is None else level.mps_limit.limit_bytes
        enforcement = Enforcement.NONE
        if reading is not None:
            identified = bool(record.pod_uid) or record.launcher is not None
            pids, claim = tracked.group.pids, tracked.claim
            enforcement = level_of_container(
                level,
                identified,
                pids,
                reading,
                claim.interposed_pids,
                mps_limit_holds=limit_holds(level.mps_limit, claim.quota_bytes, pids),
            )
        texts = [
            self._warning(tracked) if tracked.group.stage is Stage.WARNED else "",
            shortfall(record.minimum_enforcement, level.enforcement, level.reason)
            or mps_limit_shortfall(record.minimum_enforcement, mps_limit_bytes, tracked.claim.quota_bytes),
        ]
        if tracked.use.computes_without_turn and self._config.compute_without_turn == "Warn":
            texts.append(f"{WITHOUT_TURN}; {WARNS_ONLY}")
        eviction_message = (
            f"{tracked.eviction_message}; that failed: {tracked.group.failure}"
            if tracked.group.failure
            else tracked.eviction_message
        )
        return EnforcementStatus(
            enforcement,
            "; ".join(text for text in texts if text),
            tracked.evicted,
            eviction_message,
            round(tracked.use.total_seconds, 1),
        )

    def _warning(self, tracked: _TrackedContainer) -> str:
        if tracked.violation is None:
            return ""
        outcome = (
            f"its processes will be stopped after {self._config.grace_seconds} s"
            if self._rules.evicts
            else "no process is stopped (watchdog.action: Warn)"
        )
        return f"{tracked.violation.text}; {outcome}"

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


def _view_of(
    turns: GPUTurns, containers: Path
) -> tuple[tuple[Claim, ...], Mapping[str, int], frozenset[str]]:
    """Return all claims to a GPU; the quotas of the containers that say that they found it full; and the keys of those whose
    memory is not covered. Called on the loop's thread."""
    claims = tuple(
        Claim(
            gpu=turns.gpu.uuid,
            record=lease.record,
            folder=containers / lease.key,
            quota_bytes=lease.quota_bytes,
            session_pids=frozenset(session.pid for session in lease.sessions),
            uncovered=lease.uncovered,
            overdue_release=lease.overdue_release,
            interposed_pids=lease.account.processes,
            uninterposed_bytes=uninterposed_bytes(turns, lease.record),
            turns=turns.turn_use(lease),
        )
        for lease in turns.leases.values()
    )
    uncovered = frozenset(lease.key for lease in turns.leases.values() if lease.uncovered)
    return claims, turns.found_device_full(), uncovered


def _check_member(claim: Claim, pid: int) -> None:
    check_identity(Peer(pid, uid=-1), claim.record, claim.folder)


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "ended"
