"""PyTorch's threads in a container with a CPU limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from laneway.client.pytorch.cpu_threads import cpu_limit, limit_threads

FILES = {
    "v2": lambda quota: {"cpu.max": f"{quota or 'max'} 100000\n"},
    "v1": lambda quota: {"cpu/cpu.cfs_quota_us": f"{quota or -1}\n", "cpu/cpu.cfs_period_us": "100000\n"},
}

SHARE = {"LANEWAY_DIR": "/run/laneway"}


class _Torch:
    """PyTorch on a machine with 64 cores."""

    threads = 64

    def get_num_threads(self) -> int:
        return self.threads

    def set_num_threads(self, threads: int) -> None:
        self.threads = threads


@pytest.fixture(autouse=True)
def _cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))


def cgroup(folder: Path, version: str, quota: int | None) -> str:
    for name, text in FILES[version](quota).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return str(folder)


@pytest.mark.parametrize("version", FILES)
@pytest.mark.parametrize(("quota", "cpus"), [(400_000, 4.0), (50_000, 0.5), (None, None)])
def test_the_limit_is_read_from_either_version_of_cgroups(
    version: str, quota: int | None, cpus: float | None, tmp_path: Path
) -> None:
    assert cpu_limit(cgroup(tmp_path, version, quota)) == cpus


@pytest.mark.parametrize("text", ["", "max", "4 0", "a b"])
def test_what_cannot_be_read_limits_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text(text)
    assert cpu_limit(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("quota", "variables", "threads"),
    [
        (400_000, {}, 4),
        (450_000, {}, 4),
        (50_000, {}, 1),
        (800_000, {"PET_NPROC_PER_NODE": "4"}, 2),
        (800_000, {"LOCAL_WORLD_SIZE": "2", "PET_NPROC_PER_NODE": "4"}, 4),
        (800_000, {"PET_NPROC_PER_NODE": "auto"}, 8),
    ],
)
def test_threads_are_as_many_as_the_cpus_of_a_process(
    quota: int, variables: dict[str, str], threads: int, tmp_path: Path
) -> None:
    torch, given = _Torch(), {**SHARE, **variables}
    limit_threads(torch, given, cgroup(tmp_path, "v2", quota))
    assert torch.threads == threads
    assert given == {**SHARE, **variables, "OMP_NUM_THREADS": str(threads)}


@pytest.mark.parametrize(
    "variables", [{**SHARE, "OMP_NUM_THREADS": "32"}, {**SHARE, "MKL_NUM_THREADS": "32"}, {}]
)
def test_what_the_user_has_set_stays_and_so_does_a_container_without_a_share(
    variables: dict[str, str], tmp_path: Path
) -> None:
    torch, given = _Torch(), dict(variables)
    limit_threads(torch, given, cgroup(tmp_path, "v2", 400_000))
    assert (torch.threads, given) == (64, variables)


@pytest.mark.parametrize("quota", [None, 6_400_000])
def test_without_a_limit_below_the_cores_nothing_changes(quota: int | None, tmp_path: Path) -> None:
    torch, given = _Torch(), dict(SHARE)
    limit_threads(torch, given, cgroup(tmp_path, "v2", quota))
    assert (torch.threads, given) == (64, SHARE)


def test_fewer_threads_than_that_are_not_raised(tmp_path: Path) -> None:
    torch = _Torch()
    torch.threads = 2
    limit_threads(torch, dict(SHARE), cgroup(tmp_path, "v2", 400_000))
    assert torch.threads == 2
