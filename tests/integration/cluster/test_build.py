"""Programs are built once per version, whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hack.cluster import build
from hack.cluster.binaries import BINARIES, binary, required_version
from hack.cluster.build import ensure_built
from hack.cluster.probes import wait_until
from hack.cluster.progress import ClusterError

# The smallest of them.
PROGRAM = "kubeconform"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANEWAY_CACHE", str(tmp_path))
    return tmp_path


def _start_build(*, go_in: Path | None = None) -> subprocess.Popen[str]:
    """Start a build, with the Go toolchain of a folder if one is given."""
    command = [sys.executable, "-m", "hack.cluster", "build", PROGRAM]
    path = os.environ["PATH"] if go_in is None else f"{go_in}:{os.environ['PATH']}"
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PATH": path}
    )


def test_two_callers_build_once(cache: Path) -> None:
    builders = [_start_build() for _ in range(2)]
    outputs = [builder.communicate(timeout=240) for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0], outputs
    assert len({answer for answer, _ in outputs}) == 1
    assert sum(f"building {PROGRAM}" in progress and "done in" in progress for _, progress in outputs) == 1


HALF_A_BUILD = f"""#!/bin/sh
[ "$1" = env ] && echo go1.999.0 && exit
while [ "$1" != -o ]; do shift; done
echo half >"$2{PROGRAM}"
exec sleep 1000
"""


def test_a_killed_build_is_repeated_and_leaves_nothing_unfinished(
    cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    endless = tmp_path_factory.mktemp("endless")  # a real build may be over before a busy machine looks
    (endless / "go").write_text(HALF_A_BUILD)
    (endless / "go").chmod(0o755)
    first = _start_build(go_in=endless)
    wait_until(
        lambda: any((cache / "bin").glob(f".building-*/{PROGRAM}")),
        "the build under way",
        60,
        still_possible=lambda: first.poll() is None,
    )
    first.kill()
    first.communicate()
    path = ensure_built([PROGRAM])[PROGRAM]
    assert os.access(path, os.X_OK)
    assert [entry.name for entry in (cache / "bin").iterdir()] == [path.parent.name]
    built = path.stat()
    assert ensure_built([PROGRAM])[PROGRAM] == path
    again = path.stat()
    assert (again.st_ino, again.st_mtime_ns) == (built.st_ino, built.st_mtime_ns), (
        "what is built is not built again"
    )


def test_a_build_that_fails_says_what_go_said(
    cache: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path_factory.mktemp("broken")
    (broken / "go").write_text("#!/bin/sh\necho 'undefined: nonsense' >&2\nexit 1\n")
    (broken / "go").chmod(0o755)
    monkeypatch.setattr(build, "go_program", lambda go_mod: broken / "go")
    with pytest.raises(ClusterError, match=r"(?s)go build failed with status 1.*undefined: nonsense"):
        ensure_built([PROGRAM])
    assert not binary(PROGRAM).path.exists()


def test_every_program_has_a_pinned_version_and_its_checksums() -> None:
    for program in BINARIES.values():
        checksums = (program.module_folder / "go.sum").read_text()
        assert f"{program.versioned_by} {program.version} h1:" in checksums
    assert binary("kube-apiserver").version == binary("kubelet").version == binary("kubectl").version


def test_an_unknown_program_and_an_unpinned_module_are_named() -> None:
    with pytest.raises(ClusterError, match="write one of containerd"):
        binary("kubectx")
    with pytest.raises(ClusterError, match="add a require line"):
        required_version(binary(PROGRAM).module_folder / "go.mod", "example.com/absent")
