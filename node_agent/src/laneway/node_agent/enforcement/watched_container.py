"""One container on one GPU as the watchdog sees it: its claim, its processes, its violation and what is published."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

from laneway.api.enforcement import Enforcement, shortfall
from laneway.api.mps_limits import mps_limit_shortfall
from laneway.api.node_config import WatchdogConfig
from laneway.lanes.unscheduled_use import UnscheduledUse
from laneway.node_agent.enforcement.enforcement_status import EnforcementStatus
from laneway.node_agent.enforcement.escalation import Action, Rules, Stage
from laneway.node_agent.enforcement.levels import Level, level_of_container
from laneway.node_agent.enforcement.mps_limits import limit_holds
from laneway.node_agent.enforcement.process_group import ProcessGroup
from laneway.node_agent.enforcement.process_owners import ProcessMemory
from laneway.node_agent.enforcement.turn_check import WARNS_ONLY, WITHOUT_TURN, observe
from laneway.node_agent.enforcement.violation import QUOTA_EXCEEDED, Claim, Violation, check_claim
from laneway.node_agent.gpus.protocol import GPUReading

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class WatchedContainer:
    """What is known of one container on one GPU."""

    claim: Claim
    group: ProcessGroup
    use: UnscheduledUse = field(default_factory=UnscheduledUse)
    violation: Violation | None = None
    evicted: str = ""
    eviction_message: str = ""
    published: EnforcementStatus = field(default_factory=EnforcementStatus)

    def check_turns(self, memory: ProcessMemory, reading: GPUReading, config: WatchdogConfig) -> None:
        """Look whether it computes without a turn."""
        pids = memory.by_claim.get(self.claim.key, {})
        before = self.use.computes_without_turn
        self.use = observe(self.use, self.claim, reading, pids)
        if not self.use.computes_without_turn:
            return
        if config.compute_without_turn == "Stop":
            self.claim = replace(self.claim, without_turn=WITHOUT_TURN)
        elif not before:
            _log.warning("%s: %s; %s", self.claim.name, WITHOUT_TURN, WARNS_ONLY)

    def step(
        self,
        memory: ProcessMemory | None,
        now_seconds: float,
        config: WatchdogConfig,
        rules: Rules,
        *,
        urgent: bool,
    ) -> None:
        """Check its limits, and warn or stop its processes.

        Args:
            memory: the processes on the GPU; None if there is no new reading.
            now_seconds: CLOCK_MONOTONIC.
            config: tolerance and times.
            rules: when to stop.
            urgent: another container lacks the memory now.
        """
        held = None if memory is None else memory.by_claim.get(self.claim.key, {})
        if held is not None and memory is not None:
            self.group.saw_processes(held, memory.containers.get(self.claim.key, frozenset()))
            if self.group.replaced:
                self.evicted = ""
        found = check_claim(self.claim, held, config.tolerance_percent, self.violation)
        self.violation = found.violation
        urgent = urgent and found.violation is not None and found.violation.reason == QUOTA_EXCEEDED
        violation = found.violation is not None if found.conclusive or urgent else None
        action = self.group.step(
            now_seconds, violation, rules, urgent=urgent, extra_pids=self.claim.session_pids
        )
        self._record(action, config, rules, urgent=urgent)

    def _record(self, action: Action, config: WatchdogConfig, rules: Rules, *, urgent: bool) -> None:
        if action is Action.WARN:
            _log.warning("%s: %s", self.claim.name, self.warning(config))
            self.evicted = self.eviction_message = ""
        elif action is Action.ANNOUNCE and self.violation is not None:
            self.evicted = self.violation.reason
            why = f"after {config.grace_seconds} s of grace"
            if urgent:
                why = "because another container lacks the memory"
            if self.group.escalation.stops >= rules.stops_of_processes:
                why += ", with all processes of its container because it started others after each stop"
            self.eviction_message = f"stopped by the node agent {why}: {self.violation.text}"

    def status(self, level: Level, reading: GPUReading | None, config: WatchdogConfig) -> EnforcementStatus:
        """Return what is to be published."""
        record = self.claim.record
        mps_limit_bytes = 0 if level.mps_limit is None else level.mps_limit.limit_bytes
        enforcement = Enforcement.NONE
        if reading is not None:
            identified = bool(record.pod_uid) or record.launcher is not None
            pids, claim = self.group.pids, self.claim
            enforcement = level_of_container(
                level,
                identified,
                pids,
                reading,
                claim.interposed_pids,
                mps_limit_holds=limit_holds(level.mps_limit, claim.quota_bytes, pids),
            )
        texts = [
            self.warning(config) if self.group.stage is Stage.WARNED else "",
            shortfall(record.minimum_enforcement, level.enforcement, level.reason)
            or mps_limit_shortfall(record.minimum_enforcement, mps_limit_bytes, self.claim.quota_bytes),
        ]
        if self.use.computes_without_turn and config.compute_without_turn == "Warn":
            texts.append(f"{WITHOUT_TURN}; {WARNS_ONLY}")
        eviction_message = (
            f"{self.eviction_message}; that failed: {self.group.failure}"
            if self.group.failure
            else self.eviction_message
        )
        return EnforcementStatus(
            enforcement,
            "; ".join(text for text in texts if text),
            self.evicted,
            eviction_message,
            round(self.use.total_seconds, 1),
        )

    def warning(self, config: WatchdogConfig) -> str:
        """Return what it violates and what follows, as a clause; empty if it keeps its limits."""
        if self.violation is None:
            return ""
        outcome = (
            f"its processes will be stopped after {config.grace_seconds} s"
            if config.action == "Evict"
            else "no process is stopped (watchdog.action: Warn)"
        )
        return f"{self.violation.text}; {outcome}"
