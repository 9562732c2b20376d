"""The client's image replaces the client on a node while containers use it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[3] / "client" / "image" / "install_client.py"
CLIENT = SCRIPT.parents[1] / "src"

LATE_IMPORT = """
import laneway.client.runtime
print("started", flush=True)
input()
import laneway.client.{module}
"""
BASE_PYTHON = getattr(sys, "_base_executable", sys.executable)
"""Without the virtual environment, which has the client's own folder on its path."""


@pytest.fixture(scope="module")
def installer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("install_client", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def client(folder: Path, text: str) -> Path:
    (folder / "laneway" / "client").mkdir(parents=True)
    (folder / "laneway" / "client" / "__init__.py").write_text(text, encoding="utf-8")
    (folder / "sitecustomize.py").write_text(f"# {text}", encoding="utf-8")
    add_interposer(folder, text)
    return folder


def add_interposer(folder: Path, text: str) -> None:
    (folder / "liblaneway-interposer.so").write_text(f"library {text}", encoding="utf-8")
    (folder / "ld.so.preload").write_text("/opt/laneway/liblaneway-interposer.so\n", encoding="utf-8")


def seen_in(destination: Path) -> tuple[str, str]:
    package = (destination / "laneway" / "client" / "__init__.py").read_text(encoding="utf-8")
    return package, (destination / "sitecustomize.py").read_text(encoding="utf-8")


def test_it_shows_the_client_under_the_names_of_the_contract(tmp_path: Path, installer: ModuleType) -> None:
    installer.install(client(tmp_path / "source", "one"), tmp_path / "node")
    assert seen_in(tmp_path / "node") == ("one", "# one")


def test_twice_is_once(tmp_path: Path, installer: ModuleType) -> None:
    source = client(tmp_path / "source", "one")
    assert installer.install(source, tmp_path / "node") == installer.install(source, tmp_path / "node")
    assert len([path for path in (tmp_path / "node" / ".versions").iterdir() if path.is_dir()]) == 1


def test_who_opened_the_version_before_finds_all_of_it(tmp_path: Path, installer: ModuleType) -> None:
    destination = tmp_path / "node"
    installer.install(client(tmp_path / "first", "one"), destination)
    opened = (destination / "laneway").resolve()
    installer.install(client(tmp_path / "second", "two"), destination)
    assert seen_in(destination) == ("two", "# two")
    assert (opened / "client" / "__init__.py").read_text(encoding="utf-8") == "one"


def test_old_versions_go_and_a_restart_counts_as_no_version(tmp_path: Path, installer: ModuleType) -> None:
    sources = [client(tmp_path / text, text) for text in ("one", "two", "three", "four")]
    versions = [installer.install(source, tmp_path / "node") for source in (*sources, sources[-1])]
    kept = {path.name for path in (tmp_path / "node" / ".versions").iterdir() if path.is_dir()}
    assert kept == set(versions[1:])


def test_what_an_interrupted_copy_left_is_no_obstacle(tmp_path: Path, installer: ModuleType) -> None:
    left_over = tmp_path / "node" / ".versions" / ".partial" / "laneway"
    left_over.mkdir(parents=True)
    (tmp_path / "node" / ".laneway.new").symlink_to("nowhere")
    installer.install(client(tmp_path / "source", "one"), tmp_path / "node")
    assert seen_in(tmp_path / "node") == ("one", "# one")


def test_a_container_keeps_the_preload_file_that_it_mounted(tmp_path: Path, installer: ModuleType) -> None:
    destination = tmp_path / "node"
    installer.install(client(tmp_path / "first", "one"), destination)
    # A mount of one file is of the file that the link pointed to.
    mounted = (destination / "ld.so.preload").resolve()
    installer.install(client(tmp_path / "second", "two"), destination)
    assert mounted.read_text(encoding="utf-8") == "/opt/laneway/liblaneway-interposer.so\n"
    assert (destination / "liblaneway-interposer.so").read_text(encoding="utf-8") == "library two"


def test_an_image_that_is_not_whole_changes_nothing(tmp_path: Path, installer: ModuleType) -> None:
    installer.install(client(tmp_path / "source", "one"), tmp_path / "node")
    broken = client(tmp_path / "broken", "two")
    (broken / "sitecustomize.py").unlink()
    with pytest.raises(FileNotFoundError, match=r"holds no sitecustomize\.py"):
        installer.install(broken, tmp_path / "node")
    assert seen_in(tmp_path / "node") == ("one", "# one")


@pytest.mark.parametrize(
    "module",
    [
        "distributed.rank_store",  # by a gang's first iteration
        "script_api",  # by the script's own call
        "checkpoint.position",
    ],
)
def test_a_running_process_imports_modules_of_the_version_that_it_started_with(
    tmp_path: Path, installer: ModuleType, module: str
) -> None:
    first, second, node = tmp_path / "first", tmp_path / "second", tmp_path / "node"
    for source in (first, second):
        shutil.copytree(CLIENT, source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        add_interposer(source, source.name)
    moved = second / "laneway" / "client" / f"{module.replace('.', '/')}.py"
    moved.rename(moved.with_name("renamed.py"))
    installer.install(first, node)
    with subprocess.Popen(
        [BASE_PYTHON, "-c", LATE_IMPORT.format(module=module)],
        env={**os.environ, "PYTHONPATH": str(node), "LANEWAY_DIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        installer.install(second, node)
        _, problem = process.communicate("\n")
    assert process.returncode == 0, problem
