"""Which pod and container a process belongs to, from its cgroup, in the spellings of the cgroup drivers.

``…/pod<uid>/<container>`` (cgroupfs) or ``…-pod<uid with _>.slice/…`` (systemd).
"""

from __future__ import annotations

import re

_POD_COMPONENT = re.compile(
    r"^(?:.*-)?pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?$"
)
"""A pod's cgroup: its uid is a UUID, or for a static pod the hash of its manifest."""


def pod_of(cgroup: str) -> str | None:
    """Return the uid of the pod that the text of ``/proc/PID/cgroup`` names; None where it names none, or several.

    Of each path the outermost pod counts: what lies below, the container may have named itself.
    """
    found = {pod for pod, _ in _places(cgroup)}
    return found.pop() if len(found) == 1 else None


def container_of(cgroup: str) -> str:
    """Return the name of a container's cgroup within its pod's, from the text of ``/proc/PID/cgroup``; empty in no container.

    A container that the kubelet starts again has another name. What lies below, the container may have named itself.
    """
    return max((container for _, container in _places(cgroup)), default="")


def _places(cgroup: str) -> list[tuple[str, str]]:
    """Return the pod and the container's cgroup of each line that names a pod."""
    found = []
    for line in cgroup.splitlines():
        components = line.partition(":")[2].partition(":")[2].split("/")
        for place, component in enumerate(components):
            match = _POD_COMPONENT.match(component)
            if match:
                below = components[place + 1] if place + 1 < len(components) else ""
                found.append((match.group(1).replace("_", "-"), below))
                break
    return found
