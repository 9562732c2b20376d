"""Stops processes of a container, and never others.

A pidfd is opened first. Then the process that has the pid now is verified to be the container's. Then the
signal goes through the pidfd. If the pid passed to another process in between, the signal reaches nobody.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterable

from laneway.node_agent.sessions.identity import UnknownPeerError

CheckMember = Callable[[int], None]
"""Checks that a process is the container's, by pid.

Raises:
    UnknownPeerError: it is not, or this cannot be verified.
"""


class Eviction:
    """The processes of one container on one GPU that are being stopped."""

    def __init__(self, check_member: CheckMember) -> None:
        self._check_member = check_member
        self._pidfds: dict[int, int] = {}

    def terminate(self, pids: Iterable[int]) -> tuple[str, ...]:
        """Send SIGTERM to processes. Return why some could not be signalled, as clauses."""
        return self._begin(pids, signal.SIGTERM)

    def kill(self, pids: Iterable[int] = ()) -> tuple[str, ...]:
        """Send SIGKILL to processes, and to those signalled before that are still alive. Return why some could
        not be signalled, as clauses."""
        found = (self._signal(pid, pidfd, signal.SIGKILL) for pid, pidfd in self._pidfds.items())
        again = tuple(problem for problem in found if problem)
        return again + self._begin(set(pids) - self._pidfds.keys(), signal.SIGKILL)

    def _begin(self, pids: Iterable[int], number: int) -> tuple[str, ...]:
        problems = []
        for pid in sorted(pids):
            try:
                pidfd = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
            except OSError as error:
                problems.append(f"process {pid} cannot be followed (pidfd_open: {error.strerror})")
                continue
            problem = self._signal(pid, pidfd, number)
            if problem:
                os.close(pidfd)
                problems.append(problem)
            else:
                self._pidfds[pid] = pidfd
        return tuple(problems)

    def alive(self) -> bool:
        """Return whether processes that were sent a signal are still alive."""
        ended = select.poll()
        for pidfd in self._pidfds.values():
            ended.register(pidfd, select.POLLIN)
        found = {pidfd for pidfd, _ in ended.poll(0)}
        for pid, pidfd in tuple(self._pidfds.items()):
            if pidfd in found:
                os.close(self._pidfds.pop(pid))
        return bool(self._pidfds)

    def close(self) -> None:
        """Release the processes; those alive continue."""
        for pidfd in self._pidfds.values():
            os.close(pidfd)
        self._pidfds.clear()

    def _signal(self, pid: int, pidfd: int, number: int) -> str:
        try:
            self._check_member(pid)
            signal.pidfd_send_signal(pidfd, number)
        except UnknownPeerError as error:
            return str(error)
        except ProcessLookupError:
            return ""
        except PermissionError:
            return f"the agent may not signal process {pid}: it needs the capability KILL"
        return ""
