"""Which pod a cgroup belongs to, and whom a launcher has started."""

from __future__ import annotations

from pathlib import Path

import pytest
from laneway.api.container_record import ContainerRecord, Launcher
from laneway.node_agent.processes import ancestry
from laneway.node_agent.sessions.identity import Peer, UnknownPeerError, check_identity, names_pod

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
def test_a_cgroup_outside_the_pod_is_rejected(spelling: str) -> None:
    assert not names_pod(FOREIGN[spelling], POD)


def test_a_static_pod_is_named_by_a_hash() -> None:
    uid = "0123456789abcdef0123456789abcdef"
    assert names_pod(f"0::/kubepods/burstable/pod{uid}/4f5c\n", uid)


def launched_by(pid: int, start_ticks: int) -> ContainerRecord:
    return ContainerRecord(
        key="a" * 16,
        namespace="local",
        pod="train",
        container="job",
        device_ids=("GPU-1::0",),
        shares={"GPU-1": 1},
        launcher=Launcher(pid=pid, start_ticks=start_ticks),
    )


def test_only_descendants_of_a_launcher_belong_to_its_job(tmp_path: Path) -> None:
    for pid, parent, ticks in ((1, 0, 5), (10, 1, 100), (11, 10, 110), (12, 11, 120), (20, 1, 200)):
        (tmp_path / str(pid)).mkdir()
        fields = ["S", str(parent), *["0"] * 17, str(ticks), "0"]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a name) with) {' '.join(fields)}")
    assert ancestry(12, tmp_path) == ((12, 120), (11, 110), (10, 100), (1, 5))
    for pid in (10, 11, 12):
        check_identity(Peer(pid, 0), launched_by(10, 100), tmp_path, tmp_path)
    for pid, launcher in ((20, launched_by(10, 100)), (12, launched_by(10, 99)), (99, launched_by(10, 100))):
        with pytest.raises(
            UnknownPeerError, match="was not started by process 10, which launched local/train"
        ):
            check_identity(Peer(pid, 0), launcher, tmp_path, tmp_path)
