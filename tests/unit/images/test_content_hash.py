"""An archive's name changes with the inputs of its image, and with nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hack.images import targets
from hack.images.targets import TARGETS, content_hash


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what the images are made from."""
    inputs = {"Dockerfile", ".dockerignore", "requirements", "charts/laneway/Chart.yaml"}
    inputs |= {source for target in TARGETS.values() for source in target.sources}
    for name in sorted(inputs):  # a folder before the files in it
        source, copy = targets.ROOT / name, tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        else:
            shutil.copyfile(source, copy)
    monkeypatch.setattr(targets, "ROOT", tmp_path)
    return tmp_path


def hashes() -> dict[str, str]:
    return {name: content_hash(target, "engine") for name, target in TARGETS.items()}


@pytest.mark.parametrize(
    ("changed", "images"),
    [
        ("operator/src/laneway/operator/main.py", {"operator"}),
        ("core/src/laneway/api/names.py", {"operator", "device-plugin", "node-agent", "board"}),
        ("requirements/node-agent.txt", {"node-agent"}),
        ("requirements/install.sh", {"operator", "device-plugin", "node-agent", "board"}),
        ("client/PACKAGE.md", {"client"}),
        ("requirements/build.txt", {"operator", "device-plugin", "node-agent", "client", "board"}),
        ("client/src/sitecustomize.py", {"client"}),
        ("node_agent/interposer/account.c", {"client"}),
        ("requirements/interposer.txt", {"client"}),
        ("Dockerfile", set(TARGETS)),
        ("charts/laneway/Chart.yaml", set()),  # only its appVersion is in an image's name
        ("operator/src/laneway/operator/__pycache__/main.pyc", set()),
    ],
)
def test_a_change_makes_new_images_of_what_reads_it(tree: Path, changed: str, images: set[str]) -> None:
    before = hashes()
    assert hashes() == before
    path = tree / changed
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write("\n# changed\n")
    after = hashes()
    assert {name for name in TARGETS if after[name] != before[name]} == images


def test_another_engine_makes_another_image() -> None:
    assert content_hash(TARGETS["client"], "docker") != content_hash(TARGETS["client"], "buildah")


def test_the_tag_is_the_charts_app_version(tree: Path) -> None:
    chart = tree / "charts" / "laneway" / "Chart.yaml"
    chart.write_text(chart.read_text(encoding="utf-8").replace(targets.version(), "9.9.9"), encoding="utf-8")
    assert TARGETS["operator"].reference == "ghcr.io/laneway/operator:9.9.9"
