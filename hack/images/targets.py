"""The targets of the root `Dockerfile`, and the files of the tree that each uses."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REGISTRY = "ghcr.io"
"""Of the images' full names: the chart's default `image.registry`."""

_NOT_SOURCE = {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", "dist", "build"}


@dataclass(frozen=True)
class Target:
    """One target of the Dockerfile.

    Attributes:
        base: the root file system (a key of `RECIPES`) that takes its base image's place where there is no registry.
        requirements: the locked requirement files (under `requirements/`) of what the image holds.
        tools: those of what its build stages run.
        sources: files and folders of the tree that its build reads, beside the requirement files.
    """

    name: str
    base: str
    requirements: tuple[str, ...]
    tools: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def reference(self) -> str:
        """The image's full name with its tag, the chart's `appVersion`."""
        return f"{REGISTRY}/laneway/{self.name}:{version()}"


def _component(name: str, folder: str) -> Target:
    sources = ("requirements/install.sh", *_distribution("core"), *_distribution(folder))
    return Target(name, "python", (f"{name}.txt",), ("build.txt",), sources)


def _distribution(folder: str) -> tuple[str, ...]:
    """What a wheel is built from."""
    return tuple(f"{folder}/{name}" for name in ("pyproject.toml", "LICENSE", "PACKAGE.md", "src"))


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        _component("operator", "operator"),
        _component("device-plugin", "device_plugin"),
        _component("node-agent", "node_agent"),
        _component("board", "board"),
        Target(
            "client",
            "python",
            (),
            ("build.txt", "interposer.txt"),
            (*_distribution("client"), "client/image", "node_agent/interposer"),
        ),
        Target("examples", "examples", (), (), ("examples",)),
    )
}


def version() -> str:
    """The chart's `appVersion`."""
    chart = (ROOT / "charts" / "laneway" / "Chart.yaml").read_text(encoding="utf-8")
    match = re.search(r'^appVersion:\s*"?([^"\s]+)"?\s*$', chart, re.MULTILINE)
    if match is None:
        raise ValueError("charts/laneway/Chart.yaml has no line 'appVersion: VERSION'")
    return match[1]


def content_hash(target: Target, *circumstances: str) -> str:
    """Returns 16 hex digits that change with any file that the build reads, the reference, or the `circumstances`."""
    digest = hashlib.sha256()
    for text in (target.reference, *circumstances):
        digest.update(f"{text}\0".encode())
    inputs = (
        "Dockerfile",
        ".dockerignore",
        *(f"requirements/{name}" for name in (*target.tools, *target.requirements)),
        *target.sources,
    )
    for path in _files(inputs):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(ROOT)}\0{path.stat().st_mode:o}\0{content}\0".encode())
    return digest.hexdigest()[:16]


def _files(inputs: tuple[str, ...]) -> Iterator[Path]:
    for relative in inputs:
        path = ROOT / relative
        if path.is_file():
            yield path
        elif path.is_dir():
            yield from (
                file for file in sorted(path.rglob("*")) if file.is_file() and not _is_left_over(file)
            )
        else:
            raise FileNotFoundError(f"{relative}: named in hack/images/targets.py, but not in the tree")


def _is_left_over(file: Path) -> bool:
    return file.suffix == ".pyc" or not _NOT_SOURCE.isdisjoint(file.relative_to(ROOT).parts)
