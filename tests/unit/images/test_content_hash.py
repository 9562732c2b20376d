"""An archive's name changes with the inputs of its image, and with nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hack.images import targets
from hack.images.targets import TARGETS, content_hash


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of what the images are made from, in its place; who changes it puts it back."""
    tmp_path = tmp_path_factory.mktemp("tree")
    inputs = {"Dockerfile", ".dockerignore", "requirements", "charts/laneway/Chart.yaml"}
    inputs |= {source for target in TARGETS.values() for source in target.sources}
    for name in sorted(inputs):  # a folder before the files in it
        source, copy = targets.ROOT / name, tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        else:
            shutil.copyfile(source, copy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(targets, "ROOT", tmp_path)
        yield tmp_path


@contextmanager
def appended(path: Path) -> Iterator[None]:
    """The file with one more line, and afterwards as it was."""
    before = path.read_bytes() if path.exists() else None
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write("\n# changed\n")
    yield
    if before is None:
        path.unlink()
    else:
        path.write_bytes(before)


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
    with appended(tree / changed):
        after = hashes()
    assert {name for name in TARGETS if after[name] != before[name]} == images


def test_another_engine_makes_another_image() -> None:
    assert content_hash(TARGETS["client"], "docker") != content_hash(TARGETS["client"], "buildah")


def test_the_tag_is_the_charts_app_version(tree: Path) -> None:
    chart = tree / "charts" / "laneway" / "Chart.yaml"
    before = chart.read_text(encoding="utf-8")
    chart.write_text(before.replace(targets.version(), "9.9.9"), encoding="utf-8")
    reference = TARGETS["operator"].reference
    chart.write_text(before, encoding="utf-8")
    assert reference == "ghcr.io/laneway/operator:9.9.9"
