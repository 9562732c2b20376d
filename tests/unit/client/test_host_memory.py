"""How much memory the container may still use."""

from __future__ import annotations

from pathlib import Path

import pytest
from laneway.client.memory.host_memory import available_bytes, trim_malloc
from laneway.client.memory.resident_memory import ResidentMemory


def machine(folder: Path, available_kib: int, cgroup: str = "0::/pod1\n", **files: str) -> tuple[str, str]:
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/meminfo").write_text(f"MemTotal: 99999 kB\nMemAvailable:   {available_kib} kB\n")
    (folder / "proc/self/cgroup").write_text(cgroup)
    pod = folder / "cgroup/pod1"
    pod.mkdir(parents=True)
    for name, text in files.items():
        (pod / f"memory.{name}").write_text(text)
    return str(folder / "proc"), str(folder / "cgroup")


@pytest.mark.parametrize(
    ("story", "available_kib", "files", "want"),
    [
        ("no limit", 100, {"max": "max\n", "current": "5\n"}, 100 * 1024),
        ("the container's is less", 100, {"max": "5000\n", "current": "1000\n", "stat": "anon 5\n"}, 4000),
        (
            "cached files count as free",
            100,
            {"max": "5000\n", "current": "4000\n", "stat": "inactive_file 700\n"},
            1700,
        ),
        ("the machine's is less", 1, {"max": "5000\n", "current": "1000\n"}, 1024),
        ("beyond its limit", 100, {"max": "5000\n", "current": "6000\n"}, 0),
        ("no cgroup v2", 100, {}, 100 * 1024),
    ],
)
def test_the_smaller_limit_counts(
    tmp_path: Path, story: str, available_kib: int, files: dict[str, str], want: int
) -> None:
    assert available_bytes(*machine(tmp_path, available_kib, **files)) == want, story


def test_unreadable_limits_are_unknown(tmp_path: Path) -> None:
    assert available_bytes(str(tmp_path / "none"), str(tmp_path)) is None


def test_freed_memory_returns_to_the_system() -> None:
    memory = ResidentMemory()
    blocks = [b"\1" * 65536 for _ in range(1000)]  # below what the C library returns by itself
    last = bytearray(65536)
    full_bytes = memory.bytes_now()
    blocks.clear()
    trim_malloc()
    assert memory.bytes_now() < full_bytes - (32 << 20)
    assert last
