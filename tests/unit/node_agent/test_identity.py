"""Which pod a cgroup belongs to."""

from __future__ import annotations

import pytest
from laneway.node_agent.sessions.identity import names_pod

POD = "6a2f3f5e-1234-4abc-9def-0123456789ab"
OTHER = "11111111-1234-4abc-9def-0123456789ab"

CGROUPS = {
    "cgroupfs, v1": f"9:name=systemd:/\n8:pids:/kubepods/burstable/pod{POD}/4f5c\n0::/\n",
    "cgroupfs, v2": f"0::/kubepods/besteffort/pod{POD}/4f5c\n",
    "guaranteed": f"0::/kubepods/pod{POD}/4f5c\n",
    "systemd": f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD.replace('-', '_')}.slice/cri-containerd-4f5c.scope\n",
    "systemd, guaranteed": f"0::/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-4f5c.scope\n",
    "seen from another cgroup namespace": f"0::/../../kubepods-burstable-pod{POD.replace('-', '_')}.slice/cri-4f5c.scope\n",
    "a kubelet with a cgroup root": f"4:memory:/n1/kubepods/burstable/pod{POD}/4f5c\n",
    "a node whose name begins with pod": f"4:memory:/podium/kubepods/burstable/pod{POD}/4f5c\n",
    "a cgroup below the container's": f"0::/kubepods/pod{POD}/4f5c/inner/pod{OTHER}\n",
}

FOREIGN = {
    "no pod": "0::/user.slice/user-0.slice/session-1.scope\n",
    "another pod": f"0::/kubepods/burstable/pod{OTHER}/4f5c\n",
    "the uid at another place": f"0::/kubepods/burstable/pod{OTHER}/pod{POD}\n",
    "the uid without its prefix": f"0::/kubepods/burstable/{POD}/4f5c\n",
    "a longer uid": f"0::/kubepods/burstable/pod{POD}0/4f5c\n",
    "two pods": f"8:pids:/kubepods/pod{POD}/4f5c\n7:cpu:/kubepods/pod{OTHER}/4f5c\n",
    "nothing": "",
}


@pytest.mark.parametrize("spelling", CGROUPS)
def test_a_pods_cgroup_is_known_in_every_spelling(spelling: str) -> None:
    assert names_pod(CGROUPS[spelling], POD)


@pytest.mark.parametrize("spelling", FOREIGN)
def test_a_foreign_cgroup_is_not(spelling: str) -> None:
    assert not names_pod(FOREIGN[spelling], POD)


def test_a_static_pod_is_named_by_a_hash() -> None:
    uid = "0123456789abcdef0123456789abcdef"
    assert names_pod(f"0::/kubepods/burstable/pod{uid}/4f5c\n", uid)
