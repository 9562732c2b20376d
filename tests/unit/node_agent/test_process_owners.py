"""Whose the processes on a GPU are."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from laneway.api.container_record import ContainerRecord, Launcher
from laneway.node_agent.enforcement.process_owners import (
    PodContainer,
    ProcessMemory,
    ProcessOwners,
    check_stray,
    processes_of,
)
from laneway.node_agent.enforcement.violation import Claim
from laneway.node_agent.processes import descendants
from laneway.node_agent.sessions.identity import UnknownPeerError

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


def test_a_process_belongs_to_the_container_of_its_pod_whose_folder_it_sees(proc: Path) -> None:
    write(proc, 7, f"/kubepods/burstable/pod{POD}/4f5c", "a" * 16)
    write(proc, 8, f"/kubepods/burstable/pod{OTHER}/4f5c", "a" * 16)
    write(proc, 9, "/user.slice", "a" * 16)
    a = claim("a", POD)
    assert ProcessOwners(proc).attribute({7: 70, 8: 80, 9: 90}, [a]) == ProcessMemory(
        {a.key: {7: 70}},
        {PodContainer(OTHER, "4f5c"): {8: 80}},
        {9: 90},
        {a.key: frozenset({PodContainer(POD, "4f5c")})},
    )


def test_a_process_that_has_the_pid_of_an_ended_one_is_looked_up_again(proc: Path) -> None:
    a, b = claim("a", POD), claim("b", OTHER)
    owners = ProcessOwners(proc)
    for owner, pod, start in ((a, POD, 100), (b, OTHER, 200)):
        shutil.rmtree(proc / "7", ignore_errors=True)
        write(proc, 7, f"/kubepods/pod{pod}/c", owner.record.key)
        (proc / "7/stat").write_text(f"7 (train) S 0 {' '.join(['0'] * 17)} {start} 0")
        assert owners.attribute({7: 70}, [a, b]).by_claim == {owner.key: {7: 70}}


def test_a_connected_process_belongs_to_its_session_even_if_the_pod_is_unknown(proc: Path) -> None:
    a = claim("a", "", 7)
    assert ProcessOwners(proc).attribute({7: 70}, [a]) == ProcessMemory({a.key: {7: 70}})


def test_each_container_of_a_pod_is_its_own_owner(proc: Path) -> None:
    a, b = claim("a", POD), claim("b", POD)
    write(proc, 7, f"/kubepods/pod{POD}/cb", "b" * 16)
    write(proc, 8, f"/kubepods/pod{POD}/cc", "c" * 16)
    write(proc, 9, f"/kubepods/pod{POD}/sidecar", "")
    write(proc, 10, f"/kubepods/pod{POD}/sidecar", "")
    readings = {7: 70, 8: 80, 9: 90, 10: 100}
    strays = {
        PodContainer(POD, "cc"): {8: 80},
        PodContainer(POD, "sidecar"): {9: 90, 10: 100},
    }
    containers = {b.key: frozenset({PodContainer(POD, "cb")})}
    assert ProcessOwners(proc).attribute(readings, [a, b]) == ProcessMemory(
        {b.key: {7: 70}}, strays, {}, containers
    )
    assert ProcessOwners(proc).attribute(readings, [b]).strays == strays, "one claim takes no other's process"


def test_a_sandbox_in_a_container_belongs_to_the_container(proc: Path) -> None:
    cgroup = f"/kubepods/pod{POD}/4f5c"
    for pid, parent, folder, group in ((7, 6, "", cgroup), (6, 1, "a" * 16, cgroup), (8, 1, "", cgroup)):
        write(proc, pid, group, folder)
        (proc / str(pid) / "stat").write_text(f"{pid} (x) S {parent} {'0 ' * 17}{pid}00 0")
    write(proc, 1, "/init.scope", "a" * 16)
    (proc / "1" / "stat").write_text(f"1 (init) S 0 {'0 ' * 17}100 0")
    found = ProcessOwners(proc).attribute({7: 70, 8: 80}, [claim("a", POD)])
    assert found.by_claim == {("GPU-1", "a" * 16): {7: 70}}
    assert found.strays == {PodContainer(POD, "4f5c"): {8: 80}}, (
        "no folder of another container's process counts"
    )


def test_the_agents_own_pod_and_ended_processes_are_no_strays(proc: Path) -> None:
    (proc / "self" / "cgroup").write_text(f"0::/kubepods/pod{OTHER}/agent\n")
    write(proc, 7, f"/kubepods/pod{OTHER}/agent", "")
    write(proc, 8, f"/kubepods/pod{OTHER}/device-plugin", "")
    assert ProcessOwners(proc).attribute({7: 70, 8: 80, 9: 90}, []) == ProcessMemory()


def test_the_mps_servers_in_their_daemons_pod_are_no_strays(proc: Path, tmp_path: Path) -> None:
    write(proc, 6, f"/kubepods/pod{OTHER}/4f5c", "")
    write(proc, 7, f"/kubepods/pod{OTHER}/4f5c", "")
    write(proc, 8, f"/kubepods/pod{POD}/4f5c", "")
    pid_file = tmp_path / "nvidia-cuda-mps-control.pid"
    assert set(ProcessOwners(proc, pid_file).attribute({7: 70}, []).strays) == {PodContainer(OTHER, "4f5c")}
    pid_file.write_text("6\n")
    found = ProcessOwners(proc, pid_file).attribute({7: 70, 8: 80}, [])
    assert found.strays == {PodContainer(POD, "4f5c"): {8: 80}}
    pid_file.write_text("12345")
    assert ProcessOwners(proc, pid_file).attribute({7: 70}, []).strays, "the daemon has ended"


def test_while_a_containers_pod_is_unknown_its_processes_are_no_strays(proc: Path) -> None:
    write(proc, 7, f"/kubepods/pod{POD}/4f5c", "a" * 16)
    write(proc, 8, f"/kubepods/pod{OTHER}/4f5c", "")
    write(proc, 9, f"/kubepods/pod{OTHER}/4f5c", "b" * 16)
    found = ProcessOwners(proc).attribute({7: 70, 8: 80, 9: 90}, [claim("a", "")])
    assert found.foreign == {7: 70, 8: 80}
    assert found.strays == {PodContainer(OTHER, "4f5c"): {9: 90}}, "it has a share of another GPU"


def test_a_process_is_looked_up_once_and_its_container_may_appear_later(proc: Path) -> None:
    write(proc, 7, f"/kubepods/pod{POD}/4f5c", "a" * 16)
    owners, nameless = ProcessOwners(proc), claim("a", "")
    assert owners.attribute({7: 70}, [nameless]).foreign == {7: 70}
    (proc / "7" / "cgroup").unlink()
    named = replace(nameless, record=nameless.record.model_copy(update={"pod_uid": POD}))
    assert owners.attribute({7: 71}, [named]).by_claim == {named.key: {7: 71}}
    assert owners.attribute({}, [named]) == ProcessMemory()
    assert owners.attribute({7: 71}, [named]) == ProcessMemory(), "the number may be another process's now"


def test_a_signal_reaches_only_processes_of_that_container(proc: Path) -> None:
    write(proc, 7, f"/kubepods/pod{POD}/sidecar", "")
    check_stray(7, PodContainer(POD, "sidecar"), proc)
    with pytest.raises(UnknownPeerError, match=f"process 7 is not in the container other of pod {POD}"):
        check_stray(7, PodContainer(POD, "other"), proc)
    with pytest.raises(UnknownPeerError, match="the cgroup of process 8 cannot be read"):
        check_stray(8, PodContainer(POD, "sidecar"), proc)


def test_the_processes_of_a_container_are_those_of_its_cgroup(proc: Path) -> None:
    write(proc, 7, f"/kubepods/pod{POD}/ca", "")
    write(proc, 8, f"/kubepods/pod{POD}/ca/below", "")
    write(proc, 9, f"/kubepods/pod{POD}/cb", "")
    write(proc, 10, f"/kubepods/pod{OTHER}/ca", "")
    write(proc, 11, "/user.slice", "")
    (proc / "12").mkdir()
    assert processes_of([PodContainer(POD, "ca")], proc) == {7, 8}
    assert processes_of([], proc) == frozenset()


def test_a_process_without_a_pod_belongs_to_its_launchers_job(proc: Path) -> None:
    for pid, parent in ((7, 6), (6, 5), (8, 1)):
        write(proc, pid, "/user.slice", "")
        (proc / str(pid) / "stat").write_text(f"{pid} (x) S {parent} {'0 ' * 17}{pid}00 0")
    assert descendants(6, 600, proc) == {7}
    assert descendants(6, 599, proc) == frozenset(), "another process had that pid"
    a = claim("a", "")
    a = replace(a, record=a.record.model_copy(update={"launcher": Launcher(pid=6, start_ticks=600)}))
    assert ProcessOwners(proc).attribute({7: 70, 8: 80}, [a]) == ProcessMemory(
        {a.key: {7: 70}}, foreign={8: 80}
    )
