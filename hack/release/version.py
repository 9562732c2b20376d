"""The tree's version: where it is written, and how it is raised."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from hack.images.targets import version as chart_version
from hack.release.distributions import DISTRIBUTIONS, ROOT
from hack.release.failure import ReleaseError, run

CHANGELOG = ROOT / "CHANGELOG.md"
PROJECTS = ("pyproject.toml", *(f"{name}/pyproject.toml" for name in DISTRIBUTIONS))
CHART = "charts/laneway/Chart.yaml"

_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_OF_IMAGE = r"(?<=laneway/{image}:){old}(?![\w-]|\.\w)"
_IMAGES = ("operator", "device-plugin", "node-agent", "client", "board", "examples")


def check_version(version: str) -> None:
    """Checks that the tree is the release `version`.

    Raises:
        ReleaseError: it has another version, or the change log has no entry for it; the message says what to do.
    """
    if not _VERSION.fullmatch(version):
        raise ReleaseError(f"VERSION={version!r}: write three numbers, for example {chart_version()}")
    if version != chart_version():
        raise ReleaseError(
            f"the tree has version {chart_version()}, not {version}: run `python -m hack.release version {version}` and commit the result"
        )
    if f"\n## {version}\n" not in CHANGELOG.read_text(encoding="utf-8"):
        raise ReleaseError(
            f"CHANGELOG.md has no heading '## {version}': write below it what the release changes for users"
        )


def epoch() -> int:
    """Returns the time of the tree's newest commit, in seconds since 1970."""
    return int(run(["git", "log", "-1", "--format=%ct"], folder=ROOT))


def raised(name: str, text: str, old: str, new: str) -> str:
    """Returns the text of the tree's file `name` with version `new` in place of `old`."""
    was = re.escape(old)
    if name in PROJECTS:
        text = re.sub(rf'(?m)^(version = "){was}"$', rf'\g<1>{new}"', text)
        text = re.sub(rf'("laneway-[a-z-]+(?:\[[a-z,-]+\])?==){was}"', rf'\g<1>{new}"', text)
    elif name == CHART:
        text = re.sub(rf'(?m)^((?:appV|v)ersion: "?){was}("?)$', rf"\g<1>{new}\g<2>", text)
    elif name == CHANGELOG.name:
        return text.replace("\n## Unreleased\n", f"\n## {new}\n")
    for image in _IMAGES:
        text = re.sub(_OF_IMAGE.format(image=image, old=was), new, text)
    return text


def raise_version(new: str) -> list[str]:
    """Writes version `new` everywhere in the tree; returns the names of the changed files.

    Raises:
        ReleaseError: `new` is no version.
    """
    if not _VERSION.fullmatch(new):
        raise ReleaseError(f"{new!r} is no version: write three numbers, for example {chart_version()}")
    old = chart_version()
    changed = []
    for name in _tracked():
        path = ROOT / name
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        if (after := raised(name, text, old, new)) != text:
            path.write_text(after, encoding="utf-8", errors="surrogateescape")
            changed.append(name)
    return changed


def _tracked() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "*.md", "*.gotmpl", "*.py", "*.toml", "*.yaml", "*.txt", "Dockerfile"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    return [
        name for name in listed if not name.startswith("docs/measurements/") and Path(ROOT / name).is_file()
    ]
