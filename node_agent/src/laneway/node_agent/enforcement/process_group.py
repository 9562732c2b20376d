"""The processes of one container on one GPU, and how far the escalation against them has come."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from laneway.node_agent.enforcement.escalation import Action, Escalation, Observation, Rules, Stage, step
from laneway.node_agent.enforcement.eviction import CheckMember, Eviction

_log = logging.getLogger(__name__)


class ProcessGroup:
    """Follows the escalation and sends its signals."""

    def __init__(self, name: str, check_member: CheckMember) -> None:
        """Start compliant.

        Args:
            name: the container's name for the log.
            check_member: checks that a process is the container's; replace it when more is known.
        """
        self.name = name
        self.check_member = check_member
        self.escalation = Escalation()
        self.cgroup = ""
        """The container's cgroup within its pod's; empty while unknown and outside pods."""

        self.pids: frozenset[int] = frozenset()
        """Its processes in the last reading."""

        self.stopped: frozenset[int] = frozenset()
        """Its processes that were sent SIGTERM."""

        self.failure = ""
        """Why some could not be signalled."""

        self._eviction = Eviction(check_member)

    @property
    def stage(self) -> Stage:
        """Return the stage of the escalation."""
        return self.escalation.stage

    @property
    def replaced(self) -> bool:
        """Return whether other processes run in the place of those that were stopped."""
        return self.stage in (Stage.COMPLIANT, Stage.WARNED) and bool(self.pids - self.stopped)

    def saw_processes(self, pids: Iterable[int], cgroups: frozenset[str]) -> None:
        """Record the processes of a reading. A container that the kubelet started again has a new grace;
        processes that follow in the same container have none."""
        self.pids = frozenset(pids)
        if not cgroups or self.cgroup in cgroups:
            return
        if self.cgroup and self.stage in (Stage.COMPLIANT, Stage.WARNED):
            self.escalation = Escalation(seen_seconds=self.escalation.seen_seconds)
        self.cgroup = min(cgroups)

    def step(
        self,
        now_seconds: float,
        violation: bool | None,
        rules: Rules,
        *,
        urgent: bool = False,
        extra_pids: frozenset[int] = frozenset(),
    ) -> Action:
        """Take one step of the escalation and send its signal. Return the action.

        Args:
            now_seconds: CLOCK_MONOTONIC.
            violation: whether it violates a limit; None: unknown.
            rules: the settings.
            urgent: another container lacks the memory now.
            extra_pids: processes to be stopped beside those of the last reading.
        """
        observation = Observation(now_seconds, violation, self._eviction.alive(), urgent)
        self.escalation, action = step(self.escalation, observation, rules)
        if action is Action.WARN:
            self.failure = ""
        elif action is Action.TERMINATE:
            self._eviction = Eviction(self.check_member)
            self.stopped = self.pids | extra_pids
            _log.warning("sending SIGTERM container=%s pids=%s", self.name, sorted(self.stopped))
            self.failure = "; ".join(self._eviction.terminate(self.stopped))
        elif action is Action.KILL:
            _log.warning("sending SIGKILL container=%s", self.name)
            self.failure = "; ".join(self._eviction.kill())
        return action

    def close(self) -> None:
        """Release the processes; those alive continue."""
        self._eviction.close()
