"""The archive of `kubectl laneway` for this machine runs, and krew's manifest names all of them."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from hack.images.architectures import host
from hack.release import kubectl_plugin
from hack.release.distributions import build_distributions
from hack.release.kubectl_plugin import PYTHONS, build_plugin

EPOCH = 1_700_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The plugin for this machine, in place of all of them."""
    here = {(system, architecture): platform for (system, architecture), platform in kubectl_plugin.PLATFORMS.items()
            if (system, architecture) == ("linux", host())}  # fmt: skip
    made: Path = tmp_path_factory.mktemp("plugin")
    build_distributions(made, EPOCH)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kubectl_plugin, "PLATFORMS", here)
        build_plugin(made, made, "1.2.3", EPOCH)
    return made


def pythons() -> list[str]:
    """This machine's Pythons that the plugin runs with."""
    found = [
        str(path)
        for version in PYTHONS
        for path in Path.home().glob(f".pyenv/versions/{version}.*/bin/python3")
    ]
    return found or [getattr(sys, "_base_executable", sys.executable)]


def run(python: str, program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Isolated: of this machine's Python, its standard library is there and nothing else.
    command = [python, "-I", "-B", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_plugin_runs_from_its_archive(folder: Path, tmp_path: Path) -> None:
    (archive,) = folder.glob("kubectl-*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(tmp_path, filter="data")
    link = tmp_path / "bin/kubectl-laneway"
    link.parent.mkdir()
    link.symlink_to(tmp_path / "kubectl-laneway")  # as krew installs it
    for python in pythons():
        done = run(python, link, "submit", "--help")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("usage: kubectl laneway submit"), python


def test_the_manifest_names_the_archive(folder: Path) -> None:
    (archive,) = folder.glob("kubectl-*.tar.gz")
    plugin = yaml.safe_load((folder / "laneway.yaml").read_text(encoding="utf-8"))
    assert plugin["metadata"]["name"] == "laneway"
    assert plugin["spec"]["version"] == "v1.2.3"
    assert len(plugin["spec"]["shortDescription"]) <= 50
    (platform,) = plugin["spec"]["platforms"]
    assert platform["uri"].endswith(f"/v1.2.3/{archive.name}")
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert platform["selector"]["matchLabels"] == {"os": "linux", "arch": host()}
