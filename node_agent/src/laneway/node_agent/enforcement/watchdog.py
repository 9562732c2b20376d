"""Makes sure that no container exceeds its quota for long, whether or not its processes ever connected.

It runs on the enforcer's thread. It takes each new reading of a GPU, asks the loop for the leases, attributes
the processes, and runs an :mod:`escalation <laneway.node_agent.enforcement.escalation>` per container.
Results are recorded on the loop's thread, which owns the leases.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from laneway.api.enforcement import Enforcement, shortfall
from laneway.api.node_config import WatchdogConfig
from laneway.api.quantity import format_bytes
from laneway.node_agent.containers.record_file import is_same_container
from laneway.node_agent.enforcement.enforcement_status import EnforcementStatus, record_enforcement_status
from laneway.node_agent.enforcement.escalation import Action, Escalation, Observation, Rules, Stage, step
from laneway.node_agent.enforcement.eviction import Eviction
from laneway.node_agent.enforcement.interposer import uninterposed_bytes
from laneway.node_agent.enforcement.levels import Level, level_of_container
from laneway.node_agent.enforcement.process_owners import ProcessMemory, ProcessOwners
from laneway.node_agent.enforcement.violation import Claim, Violation, check_claim
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.gpus.protocol import GPUReading
from laneway.node_agent.turns.event_recorder import EventRecorder
from laneway.node_agent.turns.gpu_turns import GPUTurns

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _TrackedContainer:
    """What is known of one container on one GPU."""

    claim: Claim
    eviction: Eviction
    escalation: Escalation = field(default_factory=Escalation)
    violation: Violation | None = None
    pids: frozenset[int] = frozenset()
    """Its processes in the last reading."""

    stopped: frozenset[int] = frozenset()
    """Its processes that were sent SIGTERM."""

    evicted: str = ""
    eviction_message: str = ""
    failure: str = ""
    """Why some could not be signalled."""

    published: EnforcementStatus = field(default_factory=EnforcementStatus)


class Watchdog:
    """Watches the containers of one GPU. Call it from one thread at a time."""

    def __init__(
        self,
        turns: GPUTurns,
        containers: Path,
        config: WatchdogConfig,
        loop: EventLoop,
        recorder: EventRecorder,
    ) -> None:
        """Start with nothing seen.

        Args:
            turns: the GPU's leases; accessed on the loop's thread.
            containers: the folder of the containers' folders.
            config: tolerance and times.
            loop: the thread that owns the turns.
            recorder: receives events, on the loop's thread.
        """
        self._turns = turns
        self._containers = containers
        self._config = config
        self._rules = Rules(
            evicts=config.action == "Evict",
            grace_seconds=config.grace_seconds,
            kill_seconds=config.kill_seconds,
        )
        self._loop = loop
        self._recorder = recorder
        self._owners = ProcessOwners()
        self._tracked: dict[str, _TrackedContainer] = {}
        self._last: GPUReading | None = None
        self._logged_foreign: frozenset[int] = frozenset()

    @property
    def active(self) -> bool:
        """Return whether an escalation is in progress, so that the next check should not wait for a new
        reading."""
        return any(tracked.escalation.stage is not Stage.COMPLIANT for tracked in self._tracked.values())

    def check(self, reading: GPUReading | None, level: Level, now_seconds: float) -> None:
        """Check the containers once.

        Args:
            reading: the GPU's last reading; None while it does not answer.
            level: the level in force on it.
            now_seconds: CLOCK_MONOTONIC.

        Raises:
            TimeoutError: the loop does not answer.
        """
        fresh = reading is not None and reading is not self._last
        if not fresh and reading is not None and not self.active:
            return
        self._last = reading
        claims = self._loop.ask(partial(claims_of, self._turns, self._containers))
        self._track(claims)
        memory = None
        if fresh and reading is not None and not reading.processes_hidden:
            memory = self._owners.attribute(reading.process_bytes, claims)
            self._log_foreign(memory.foreign)
            self._loop.post(partial(self._turns.record_process_memory, reading.process_bytes))
        for tracked in self._tracked.values():
            self._act(tracked, self._evaluate(tracked, memory, now_seconds))
            self._publish(tracked, self._status(tracked, level, reading))

    def _track(self, claims: tuple[Claim, ...]) -> None:
        """Keep one entry per container; a key with a new owner starts over."""
        before, self._tracked = self._tracked, {}
        for claim in claims:
            tracked = before.get(claim.record.key)
            if tracked is not None and is_same_container(tracked.claim.record, claim.record):
                tracked.claim = claim
                self._tracked[claim.record.key] = before.pop(claim.record.key)
            else:
                self._tracked[claim.record.key] = _TrackedContainer(claim, Eviction(claim))
        for tracked in before.values():
            tracked.eviction.close()

    def _evaluate(
        self, tracked: _TrackedContainer, memory: ProcessMemory | None, now_seconds: float
    ) -> Action:
        held = None if memory is None else memory.by_claim.get(tracked.claim.key, {})
        if held is not None:
            tracked.pids = frozenset(held)
            if tracked.escalation.stage is Stage.COMPLIANT and tracked.pids - tracked.stopped:
                tracked.evicted = ""  # other processes run in their place
        found = check_claim(tracked.claim, held, self._config.tolerance_percent, tracked.violation)
        tracked.violation = found.violation
        observation = Observation(
            now_seconds, found.violation is not None if found.conclusive else None, tracked.eviction.alive()
        )
        tracked.escalation, action = step(tracked.escalation, observation, self._rules)
        return action

    def _act(self, tracked: _TrackedContainer, action: Action) -> None:
        if action is Action.WARN:
            _log.warning("%s: %s", tracked.claim.name, self._warning(tracked))
            tracked.evicted = tracked.eviction_message = tracked.failure = ""
        elif action is Action.ANNOUNCE and tracked.violation is not None:
            tracked.evicted = tracked.violation.reason
            tracked.eviction_message = f"stopped by the node agent after {self._config.grace_seconds} s of grace: {tracked.violation.text}"
        elif action is Action.TERMINATE:
            tracked.eviction = Eviction(tracked.claim)
            tracked.stopped = tracked.pids | tracked.claim.session_pids
            _log.warning("sending SIGTERM container=%s pids=%s", tracked.claim.name, sorted(tracked.stopped))
            tracked.failure = "; ".join(tracked.eviction.terminate(tracked.stopped))
        elif action is Action.KILL:
            _log.warning("sending SIGKILL container=%s", tracked.claim.name)
            tracked.failure = "; ".join(tracked.eviction.kill())

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
        enforcement = Enforcement.NONE
        if reading is not None:
            identified = bool(record.pod_uid) or record.launcher is not None
            interposed_pids = tracked.claim.interposed_pids
            enforcement = level_of_container(level, identified, tracked.pids, reading, interposed_pids)
        texts = [
            self._warning(tracked) if tracked.escalation.stage is Stage.WARNED else "",
            shortfall(record.minimum_enforcement, level.enforcement, level.reason),
        ]
        eviction_message = (
            f"{tracked.eviction_message}; that failed: {tracked.failure}"
            if tracked.failure
            else tracked.eviction_message
        )
        return EnforcementStatus(
            enforcement, "; ".join(text for text in texts if text), tracked.evicted, eviction_message
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
                "process without a share uses the GPU gpu=%s pid=%d command=%r memory=%r",
                self._turns.gpu.uuid,
                pid,
                _name_of(pid),
                format_bytes(foreign[pid]),
            )
        self._logged_foreign = frozenset(foreign)


def claims_of(turns: GPUTurns, containers: Path) -> tuple[Claim, ...]:
    """Return all claims to a GPU. Called on the loop's thread."""
    return tuple(
        Claim(
            gpu=turns.gpu.uuid,
            record=lease.record,
            folder=containers / lease.key,
            quota_bytes=lease.quota_bytes,
            session_pids=frozenset(session.pid for session in lease.sessions),
            uncovered=lease.uncovered,
            interposed_pids=lease.account.processes,
            uninterposed_bytes=uninterposed_bytes(turns, lease.record),
        )
        for lease in turns.leases.values()
    )


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "ended"
