"""Which pod a process belongs to, from its cgroup, in the spellings of the cgroup drivers.

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
    found = set()
    for line in cgroup.splitlines():
        for component in line.partition(":")[2].partition(":")[2].split("/"):
            match = _POD_COMPONENT.match(component)
            if match:
                found.add(match.group(1).replace("_", "-"))
                break
    return found.pop() if len(found) == 1 else None
