"""The library as it is shipped: where it loads, what it exports, and that /etc/ld.so.preload brings it into every process."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.isolation.building import program, sanitized_interposer, shipped_interposer
from tests.support.isolation.container import OK, QUOTA, Container

MOUNT = """
mount -t tmpfs none /opt
mkdir /opt/laneway
cp "$1" /opt/laneway/
touch "$2"
mount -t tmpfs none /run
mkdir /run/laneway
mount --bind "$3" /run/laneway
if [ ! -e /etc/ld.so.preload ]; then mount -t overlay none -o "lowerdir=/etc,upperdir=$4/upper,workdir=$4/work" /etc; touch /etc/ld.so.preload; fi
mount --bind "$2" /etc/ld.so.preload
shift 4
exec "$@"
"""


def test_it_needs_nothing_newer_than_glibc_2_17() -> None:
    output = subprocess.run(
        ["readelf", "--version-info", "--dynamic", "--wide", str(shipped_interposer())],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    needed = {tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_([0-9.]+)", output)}
    assert needed
    assert max(needed) <= (2, 17)
    assert re.findall(r"\(NEEDED\).*\[(.+)\]", output) == ["libc.so.6"]
    only_python_start = re.findall(r"\(INIT_ARRAYSZ\)\s+(\d+)", output)
    assert only_python_start == ["8"], "no other code runs in each program"


def test_it_exports_the_interposed_names_only() -> None:
    output = subprocess.run(
        ["nm", "--dynamic", "--defined-only", str(shipped_interposer())],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = {line.split()[-1] for line in output.splitlines()}
    assert {"dlsym", "dlvsym", "cuMemAlloc_v2", "cuGetProcAddress_v2", "nvmlDeviceGetMemoryInfo"} <= names
    assert all(name in ("dlsym", "dlvsym") or re.match(r"cu[A-Z]|nvml[A-Z]", name) for name in names), names


@pytest.fixture
def namespace(container: Container, tmp_path: Path) -> list[str | Path]:
    """The command's begin: a mount namespace like a container's, with the shipped library in /etc/ld.so.preload."""
    shipped, layer = shipped_interposer(), tmp_path / "etc"
    for name in ("", "upper", "work"):
        (layer / name).mkdir()
    preload = shipped.with_name("ld.so.preload")
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", MOUNT, "sh"]
    return [*command, shipped, preload, container.account.folder, layer]


@pytest.mark.parametrize("environment", ["as it is", "clean"])
def test_the_preload_file_holds_programs_without_ld_preload(
    container: Container, namespace: list[str | Path], environment: str
) -> None:
    driver = [f"{name}={value}" for name, value in container.variables.items()]
    clean = ["env", "-i", *driver] if environment == "clean" else []
    command = [*namespace, *clean, program("resolved"), "dlsym"]
    done = subprocess.run(
        [str(part) for part in command],
        env=container.environment(LD_PRELOAD=None),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("5\n", "")
    assert container.account.highest == QUOTA


def test_a_cleared_preload_file_escapes(container: Container, namespace: list[str | Path]) -> None:
    """Root in a container may unmount the file if it has the capability. Then only the device knows, and the watchdog acts."""
    command = [
        *namespace,
        "sh",
        "-c",
        f"umount /etc/ld.so.preload && exec {program('resolved')} dlsym </dev/null",
    ]
    assert container.run(*command, LD_PRELOAD=None) == [10]
    assert container.account.requests == []


def test_an_images_own_preload_keeps_working(container: Container) -> None:
    own = program("own_preload", "-shared", "-fPIC", "-ldl")
    done = subprocess.run(
        [program("resolved"), "linked"],
        env=container.environment(LD_PRELOAD=f"{own}:{container.interposer}"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("5\n", "".join(f"call {number}\n" for number in range(1, 11)))


def test_a_program_with_sanitizers_starts(container: Container) -> None:
    """They call dlsym before anything else can run. GCC's shared runtime accepts a preloaded library only if it is told to."""
    sanitized = program("nothing", "-fsanitize=address,undefined")
    assert container.run(sanitized, ASAN_OPTIONS="verify_asan_link_order=0") == []


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("racing", []), ("interrupted", []), ("forking", ["fork"]), ("versions", []), ("resolved", ["dlsym"])],
)
def test_sanitizers_find_nothing(container: Container, name: str, arguments: list[str]) -> None:
    sanitized = sanitized_interposer(container.account.folder)
    runtimes = [
        subprocess.run(
            ["gcc", f"-print-file-name={library}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for library in ("libasan.so", "libubsan.so")
    ]
    done = subprocess.run(
        [program(name), *arguments],
        env=container.environment(
            LD_PRELOAD=":".join([*runtimes, str(sanitized)]),
            ASAN_OPTIONS="detect_leaks=0:verify_asan_link_order=0",
        ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (OK, "")
