"""Whose the processes on a GPU are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from laneway.api.container_record import ContainerRecord, Launcher
from laneway.node_agent.enforcement.process_owners import ProcessMemory, ProcessOwners
from laneway.node_agent.enforcement.violation import Claim

POD = "6a2f3f5e-1234-4abc-9def-0123456789ab"
OTHER = "11111111-1234-4abc-9def-0123456789ab"


def claim(key: str, pod_uid: str, *pids: int) -> Claim:
    record = ContainerRecord(
        key=key * 16,
        namespace="default",
        pod=f"pod-{key}",
        pod_uid=pod_uid,
        container="trainer",
        device_ids=("GPU-1::0",),
        shares={"GPU-1": 1},
    )
    return Claim("GPU-1", record, Path("/c"), 1, frozenset(pids))


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    write(tmp_path, "self", "/kubepods/podagent", "")
    return tmp_path


def write(proc: Path, pid: int | str, cgroup: str, folder: str) -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "cgroup").write_text(f"0::{cgroup}\n")
    mounts = ["22 1 0:5 / / rw - overlay overlay rw"]
    if folder:
        mounts.append(f"31 22 0:20 /laneway/containers/{folder} /run/laneway ro - tmpfs tmpfs rw")
    (proc / str(pid) / "mountinfo").write_text("\n".join(mounts))


def test_a_process_belongs_to_the_pod_of_its_cgroup(proc: Path) -> None:
    write(proc, 7, f"/kubepods/burstable/pod{POD}/4f5c", "")
    write(proc, 8, f"/kubepods/burstable/pod{OTHER}/4f5c", "")
    write(proc, 9, "/user.slice", "")
    a = claim("a", POD)
    found = ProcessOwners(proc).attribute({7: 70, 8: 80, 9: 90}, [a, claim("b", "")])
    assert found == ProcessMemory({a.key: {7: 70}}, {8: 80, 9: 90})


def test_a_connected_process_belongs_to_its_session_even_if_the_pod_is_unknown(proc: Path) -> None:
    a = claim("a", "", 7)
    assert ProcessOwners(proc).attribute({7: 70}, [a]) == ProcessMemory({a.key: {7: 70}}, {})


def test_the_mounted_folder_decides_between_containers_of_a_pod(proc: Path) -> None:
    cgroup = f"/kubepods/pod{POD}/4f5c"
    a, b = claim("a", POD), claim("b", POD)
    write(proc, 7, cgroup, "b" * 16)
    write(proc, 8, cgroup, "c" * 16)
    write(proc, 9, cgroup, "")
    assert ProcessOwners(proc).attribute({7: 70, 8: 80, 9: 90}, [a, b]) == ProcessMemory(
        {b.key: {7: 70}}, {8: 80, 9: 90}
    )


def test_ended_processes_are_omitted_and_the_agents_own_are_not_foreign(proc: Path) -> None:
    write(proc, 7, "/kubepods/podagent", "")
    assert ProcessOwners(proc).attribute({7: 70, 8: 80}, []) == ProcessMemory()


def test_a_process_is_looked_up_once_and_its_container_may_appear_later(proc: Path) -> None:
    write(proc, 7, f"/kubepods/pod{POD}/4f5c", "")
    owners, nameless = ProcessOwners(proc), claim("a", "")
    assert owners.attribute({7: 70}, [nameless]) == ProcessMemory({}, {7: 70})
    (proc / "7" / "cgroup").unlink()
    named = replace(nameless, record=nameless.record.model_copy(update={"pod_uid": POD}))
    assert owners.attribute({7: 71}, [named]) == ProcessMemory({named.key: {7: 71}}, {})
    assert owners.attribute({}, [named]) == ProcessMemory()
    assert owners.attribute({7: 71}, [named]) == ProcessMemory(), "the number may be another process's now"


def test_a_process_without_a_pod_belongs_to_its_launchers_job(proc: Path) -> None:
    for pid, parent in ((7, 6), (6, 5), (8, 1)):
        write(proc, pid, "/user.slice", "")
        (proc / str(pid) / "stat").write_text(f"{pid} (x) S {parent} {'0 ' * 17}{pid}00 0")
    a = claim("a", "")
    a = replace(a, record=a.record.model_copy(update={"launcher": Launcher(pid=6, start_ticks=600)}))
    assert ProcessOwners(proc).attribute({7: 70, 8: 80}, [a]) == ProcessMemory({a.key: {7: 70}}, {8: 80})
