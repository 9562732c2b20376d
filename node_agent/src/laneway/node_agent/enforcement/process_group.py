"""The processes of one container on one GPU, and how far the escalation against them has come."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from laneway.api.container_record import Launcher
from laneway.node_agent.enforcement.escalation import Action, Escalation, Observation, Rules, Stage, step
from laneway.node_agent.enforcement.eviction import CheckMember, Eviction
from laneway.node_agent.enforcement.process_owners import PodContainer, processes_of
from laneway.node_agent.processes import descendants

_log = logging.getLogger(__name__)


class ProcessGroup:
    """Follows the escalation and sends its signals."""

    def __init__(self, name: str, check_member: CheckMember, launcher: Launcher | None = None) -> None:
        """Start compliant.

        Args:
            name: the container's name for the log.
            check_member: checks that a process is the container's; replace it when more is known.
            launcher: what started its processes where there is no pod.
        """
        self.name = name
        self.check_member = check_member
        self.escalation = Escalation()
        self.cgroup = ""
        """The container's cgroup within its pod's; empty while unknown and outside pods."""

        self.pids: frozenset[int] = frozenset()
        """Its processes in the last reading."""

        self.stopped: frozenset[int] = frozenset()
        """Its processes that were sent a signal by the last stop."""

        self.failure = ""
        """Why some could not be signalled."""

        self._killed: frozenset[int] = frozenset()
        """Those of them that a logged line says are sent SIGKILL."""

        self._eviction = Eviction(check_member)
        self._launcher = launcher
        self._containers: frozenset[PodContainer] = frozenset()
        self._on_grace: frozenset[PodContainer] = frozenset()
        """The containers that were seen in this grace. All use up the one."""

    @property
    def stage(self) -> Stage:
        """Return the stage of the escalation."""
        return self.escalation.stage

    @property
    def replaced(self) -> bool:
        """Return whether other processes run in the place of those that were stopped."""
        return self.stage in (Stage.COMPLIANT, Stage.WARNED) and bool(self.pids - self.stopped)

    def saw_processes(self, pids: Iterable[int], containers: frozenset[PodContainer]) -> None:
        """Record the processes of a reading and the containers that they are in.

        A container that the kubelet started again has a new grace: no process of the earlier one is left then.
        Processes that follow in the same container have none. Neither has another container of the pod that makes
        itself look like this one: it goes on with the grace of both.
        """
        self.pids, self._containers = frozenset(pids), containers or self._containers
        if not containers:
            return
        pod = min(container.pod for container in containers)
        known = self._on_grace or frozenset({PodContainer(pod, self.cgroup)} if self.cgroup else ())
        if known and not known & containers and not processes_of(known) and not self._eviction.alive():
            # From the announcement on, the time between two checks is not counted.
            counts = self.stage in (Stage.COMPLIANT, Stage.WARNED)
            self.escalation = Escalation(seen_seconds=self.escalation.seen_seconds if counts else None)
            known = frozenset()
        self._on_grace = known | containers
        present = known & containers or (frozenset() if known else containers)
        self.cgroup = min((container.cgroup for container in present), default=self.cgroup)

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
        begins = self.stage is Stage.ANNOUNCED
        self.escalation, action = step(self.escalation, observation, rules)
        if action is Action.WARN:
            self.failure = ""
        elif action in (Action.TERMINATE, Action.KILL):
            if begins:
                self._eviction, self.stopped, self._killed = (
                    Eviction(self.check_member),
                    frozenset(),
                    frozenset(),
                )
            whole = self.escalation.stops_container(rules)
            self._signal(action, self.pids | extra_pids | (self._all_processes() if whole else frozenset()))
        return action

    def _signal(self, action: Action, pids: frozenset[int]) -> None:
        new = (
            pids - self.stopped
        )  # a process that was signalled and has ended may have left its pid to another
        self.stopped |= new
        if action is Action.TERMINATE:
            _log.warning("sending SIGTERM container=%s pids=%s", self.name, sorted(new))
            self.failure = "; ".join(self._eviction.terminate(new))
        else:
            if self.stopped != self._killed:  # it is sent again at each check, as long as one is alive
                _log.warning("sending SIGKILL container=%s pids=%s", self.name, sorted(self.stopped))
                self._killed = self.stopped
            self.failure = "; ".join(self._eviction.kill(new))

    def _all_processes(self) -> frozenset[int]:
        if self._launcher is not None:
            return descendants(self._launcher.pid, self._launcher.start_ticks)
        return processes_of(self._containers)

    def close(self) -> None:
        """Release the processes; those alive continue."""
        self._eviction.close()
