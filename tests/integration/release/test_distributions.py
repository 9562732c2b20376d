"""Wheels and source distributions as they are released."""

from __future__ import annotations

import email
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from hack.release.distributions import DISTRIBUTIONS, ROOT, build_distributions
from tests.support.torch_runtime import CLIENT

EPOCH = 1_700_000_000
API = ["Checkpoint", "batch_size", "expect_iterations", "iteration", "iterations", "report", "stopping"]
OLDEST = "3.8"
"""The client's oldest Python: ``requires-python`` in its metadata."""

IMPORT_ALL = """
import importlib, pkgutil
import laneway.client
modules = pkgutil.walk_packages(laneway.client.__path__, "laneway.client.")
print(*sorted(importlib.import_module(module.name).__name__ for module in modules), sep="\\n")
"""


def python_of(version: str) -> str | None:
    """An interpreter with pip of a minor version of Python: the tests' own, pyenv's, or one on the PATH."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    ours = sorted(str(python) for python in Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"))
    on_path = shutil.which(f"python{version}")
    for python in (*ours, *([on_path] if on_path else [])):
        usable = subprocess.run([python, "-c", "import ensurepip, venv"], check=False, capture_output=True)
        if usable.returncode == 0:
            return python
    return None


VERSIONS = [
    OLDEST,
    f"{sys.version_info.major}.{sys.version_info.minor}",
    *(
        pytest.param(f"3.{minor}", marks=pytest.mark.long)
        for minor in range(9, 14)
        if minor != sys.version_info.minor
    ),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return build_distributions(tmp_path_factory.mktemp("dist"), EPOCH)


def wheel(built: list[Path], name: str) -> Path:
    (found,) = (path for path in built if path.name.startswith(f"laneway_{name}-") and path.suffix == ".whl")
    return found


def metadata(path: Path) -> Message:
    with zipfile.ZipFile(path) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return email.message_from_bytes(archive.read(name))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_metadata_say_what_an_index_shows(built: list[Path], name: str) -> None:
    about = metadata(wheel(built, name))
    assert about["License-Expression"] == "Apache-2.0"
    assert about["License-File"] == "LICENSE"
    assert about["Author"]
    assert about["Keywords"]
    urls = {url.partition(",")[0] for url in about.get_all("Project-URL", [])}
    assert urls == {"Changelog", "Documentation", "Issues", "Source"}
    assert about["Description-Content-Type"] == "text/markdown"
    assert about.get_payload().startswith(f"# laneway-{name.replace('_', '-')}\n")


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_source_distributions_hold_the_licence(built: list[Path], name: str) -> None:
    (source,) = (path for path in built if path.name.startswith(f"laneway_{name}-") and path.suffix == ".gz")
    with tarfile.open(source) as archive:
        file = archive.extractfile(f"{source.name.removesuffix('.tar.gz')}/LICENSE")
        assert file is not None
        assert file.read() == (ROOT / "LICENSE").read_bytes()


def test_the_same_tree_gives_the_same_files(built: list[Path], tmp_path: Path) -> None:
    again = build_distributions(tmp_path / "again", EPOCH, ["client"])
    assert {path.name: path.read_bytes() for path in again} == {
        path.name: path.read_bytes() for path in built if path.name.startswith("laneway_client-")
    }


def test_the_clients_wheel_holds_all_of_it_and_no_start_up_hook(built: list[Path]) -> None:
    with zipfile.ZipFile(wheel(built, "client")) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    sources = (path.relative_to(CLIENT) for path in (CLIENT / "laneway").rglob("*"))
    assert held == {path.as_posix() for path in sources if path.suffix in (".py", ".typed")}


@pytest.mark.parametrize("version", VERSIONS)
def test_pip_installs_the_client(built: list[Path], version: str, tmp_path: Path) -> None:
    python = python_of(version)
    if python is None:
        missing = f"neither pyenv nor the PATH has a Python {version} with pip: install one"
        assert version != OLDEST or "CI" not in os.environ, missing
        pytest.skip(missing)
    environment = tmp_path / "venv"
    subprocess.run([python, "-m", "venv", environment], check=True)
    own = environment / "bin/python"
    command = [own, "-m", "pip", "install", "--quiet", "--no-index", wheel(built, "client")]
    subprocess.run(command, check=True)

    def run(code: str) -> str:
        return subprocess.run([own, "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout

    assert run("import sys; print(*sys.version_info[:2], sep='.')") == f"{version}\n"
    assert run("import laneway.client as client; print(dir(client)); client.report(loss=1.0)") == f"{API}\n"
    assert run(IMPORT_ALL).split() == modules_of(wheel(built, "client")), "none needs PyTorch"


def modules_of(path: Path) -> list[str]:
    """The modules of the client in its wheel."""
    with zipfile.ZipFile(path) as archive:
        files = (
            name for name in archive.namelist() if name.startswith("laneway/client/") and name.endswith(".py")
        )
        modules = {name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in files}
    return sorted(modules - {"laneway.client"})


def test_the_oldest_python_is_the_one_that_the_client_declares(built: list[Path]) -> None:
    assert metadata(wheel(built, "client"))["Requires-Python"] == f">={OLDEST}"


def test_the_command_line_needs_the_simulator_for_its_extra_only(built: list[Path]) -> None:
    needed = {
        name: [Requirement(text) for text in metadata(wheel(built, name)).get_all("Requires-Dist", [])]
        for name in DISTRIBUTIONS
    }

    def reached(name: str, extras: set[str]) -> set[str]:
        found = {name}
        for each in needed.get(name.removeprefix("laneway-").replace("-", "_"), []):
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras or {""}):
                found |= reached(each.name, each.extras)
        return found

    simulator = {"laneway-simulator", "numpy", "scipy"}
    assert not simulator & reached("laneway-cli", set())
    assert simulator <= reached("laneway-cli", {"simulator"})


def test_versions_and_pins_agree() -> None:
    projects = {
        name: tomllib.loads((ROOT / name / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for name in DISTRIBUTIONS
    }
    (version,) = {project["version"] for project in projects.values()}
    pins = {
        dependency.partition("==")[2]
        for project in projects.values()
        for dependency in project["dependencies"]
        if dependency.startswith("laneway-")
    }
    assert pins == {version}
