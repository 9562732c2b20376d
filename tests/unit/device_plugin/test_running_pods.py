"""Which pods have processes."""

from __future__ import annotations

from pathlib import Path

from laneway.device_plugin.running_pods import pods_with_processes

POD = "6a2f3f5e-1234-4abc-9def-0123456789ab"


def test_pods_are_known_by_the_cgroups_of_their_processes(tmp_path: Path) -> None:
    cgroups = {
        "1": "0::/init.scope\n",
        "17": f"8:pids:/kubepods/burstable/pod{POD}/4f5c\n0::/\n",
        "18": f"8:pids:/kubepods/burstable/pod{POD}/4f5c\n0::/\n",
        "self": f"0::/kubepods/pod{POD.replace('6', '7')}/4f5c\n",
    }
    for name, text in cgroups.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup").write_text(text)
    (tmp_path / "19").mkdir()  # it ends while it is looked at

    assert pods_with_processes(tmp_path) == {POD}
