"""Stops processes on a GPU whose pod has no share of it: a sidecar of a pod with a share, or a pod without one.

Processes in no pod (the host's, such as the display's or NVIDIA's daemons) and in Laneway's own pods are never
stopped. Where another device plugin may have given a pod the GPU, or an instance of it, containers are only
reported.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from laneway.api.quantity import format_bytes
from laneway.node_agent.enforcement.escalation import Action, Rules, Stage
from laneway.node_agent.enforcement.process_group import ProcessGroup
from laneway.node_agent.enforcement.process_owners import PodContainer, check_stray
from laneway.node_agent.turns.stray_report import StrayUse

_log = logging.getLogger(__name__)


def spared_strays_reason(other_offers: Sequence[str] | None, *, mig: bool) -> str:
    """Return why containers without a share are not stopped on a GPU; empty if they are.

    Args:
        other_offers: GPUs of this node that other device plugins offer; None while unknown.
        mig: the GPU is divided into instances, which are never Laneway's.
    """
    if mig:
        return "MIG mode is on, so another device plugin may have given the container an instance"
    if other_offers is None:
        return "it is not known yet whether another device plugin offers this node's GPUs"
    if other_offers:
        return f"another device plugin offers this node's GPUs too ({', '.join(other_offers)})"
    return ""


class StrayContainers:
    """The containers without a share that were seen on one GPU lately. Call it from one thread at a time."""

    def __init__(self, gpu: str, rules: Rules) -> None:
        self._gpu = gpu
        self._rules = rules
        self._groups: dict[PodContainer, ProcessGroup] = {}
        self._held_bytes: dict[PodContainer, int] = {}
        self._spared = ""

    @property
    def groups(self) -> Mapping[PodContainer, ProcessGroup]:
        """Return the containers under escalation."""
        return self._groups

    @property
    def active(self) -> bool:
        """Return whether the next check should not wait for a new reading."""
        return any(
            group.pids or group.stage not in (Stage.COMPLIANT, Stage.WARNED)
            for group in self._groups.values()
        )

    def check(
        self,
        found: Mapping[PodContainer, Mapping[int, int]] | None,
        now_seconds: float,
        *,
        urgent: bool,
        spared: str = "",
    ) -> None:
        """Check the containers once.

        Args:
            found: bytes by pid of each container without a share; None if there is no new reading.
            now_seconds: CLOCK_MONOTONIC.
            urgent: a container with a share lacks the memory now.
            spared: why none is stopped now; empty if they are.
        """
        self._spared = spared
        rules = replace(self._rules, evicts=self._rules.evicts and not spared)
        for container in found or ():
            self.track(container)
        for container, group in tuple(self._groups.items()):
            violation = None
            if found is not None:
                held = found.get(container, {})
                violation = bool(held)
                group.saw_processes(held, frozenset((container,)))
                self._held_bytes[container] = sum(held.values())
            if violation is None and urgent and group.pids:
                violation = True
            action = group.step(now_seconds, violation, rules, urgent=urgent)
            if spared:
                # Its grace begins once nobody else offers the GPU.
                group.escalation = replace(group.escalation, spent_seconds=0.0)
            if action is Action.WARN:
                _log.warning("%s: %s pids=%s", group.name, self._text(container), sorted(group.pids))
            if group.stage is Stage.COMPLIANT:
                group.close()
                del self._groups[container], self._held_bytes[container]

    def track(self, container: PodContainer) -> ProcessGroup:
        """Return a container's group; begin it if there is none."""
        if container not in self._groups:
            name = f"{container.pod}/{container.cgroup}"
            self._groups[container] = ProcessGroup(name, partial(check_stray, container=container))
            self._held_bytes[container] = 0
        return self._groups[container]

    def uses(self) -> tuple[StrayUse, ...]:
        """Return what is to be published."""
        return tuple(
            StrayUse(container.pod, len(group.pids), text)
            for container, group in self._groups.items()
            if (text := self._text(container))
        )

    def _text(self, container: PodContainer) -> str:
        group = self._groups[container]
        without = f"without a share of {self._gpu}"
        if not group.pids:
            return f"container {without} was stopped by the node agent" if group.stopped else ""
        outcome = f"will be stopped after {self._rules.grace_seconds:.0f} s"
        if not self._rules.evicts:
            outcome = "not stopped (watchdog.foreignProcesses or watchdog.action: Warn)"
        elif self._spared:
            outcome = f"not stopped: {self._spared}"
        elif group.stopped:
            outcome = "being stopped" + (f"; that failed: {group.failure}" if group.failure else "")
        return (
            f"container {without} holds {format_bytes(self._held_bytes[container])} of its memory; {outcome}"
        )
