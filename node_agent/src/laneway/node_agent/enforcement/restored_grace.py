"""The grace that containers of one GPU spent before the agent started, until they are seen again."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from laneway.node_agent.enforcement.escalation import Escalation, Stage
from laneway.node_agent.enforcement.grace_file import SpentGrace
from laneway.node_agent.enforcement.process_group import ProcessGroup


class RestoredGrace:
    """What an earlier agent process saved."""

    def __init__(self, spent: Collection[SpentGrace]) -> None:
        self._restored = {(each.key, each.pod_uid, "" if each.key else each.cgroup): each for each in spent}

    def __iter__(self) -> Iterator[SpentGrace]:
        """Return what no container has taken up yet."""
        return iter(self._restored.values())

    def forget(self) -> None:
        """Forget the rest: those containers have ended."""
        self._restored.clear()

    def restore(self, group: ProcessGroup, key: str, pod_uid: str, cgroup: str, now_seconds: float) -> None:
        """Continue with the grace of a container that is seen for the first time.

        Args:
            group: its processes.
            key: its key; empty: it has no share of the GPU.
            pod_uid: its pod.
            cgroup: its cgroup within its pod's, if it has no share; otherwise empty.
            now_seconds: CLOCK_MONOTONIC.
        """
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


def spent_grace(gpu: str, key: str, pod_uid: str, group: ProcessGroup) -> SpentGrace:
    """Return the grace that a container has spent."""
    return SpentGrace(
        gpu=gpu,
        key=key,
        pod_uid=pod_uid,
        cgroup=group.cgroup,
        spent_seconds=int(group.escalation.spent_seconds),
        stops=group.escalation.stops,
    )
