"""Builds the wheel and the source distribution of each package, and has twine check them.

uv builds a wheel from the source distribution, not from the tree, so what the latter lacks is noticed.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from hack.release.failure import run

ROOT = Path(__file__).resolve().parents[2]
DISTRIBUTIONS: tuple[str, ...] = tuple(
    tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["uv"]["workspace"]["members"]
)
"""Folders of the tree with one distribution each."""


def build_distributions(folder: Path, epoch: int, names: Sequence[str] = DISTRIBUTIONS) -> list[Path]:
    """Puts the distributions of the tree's folders `names` into `folder`; returns all distributions of ours there.

    Args:
        folder: is created if it does not exist.
        epoch: time of the files in them, in seconds since 1970. Equal trees and times give equal files.

    Raises:
        ReleaseError: one cannot be built, or twine finds its metadata wrong.
    """
    python = Path(sys.executable)
    command: list[str | Path] = [python.with_name("uv"), "build", "--quiet", "--no-build-isolation"]
    command += ["--no-create-gitignore", "--python", python, "--out-dir", folder]
    for name in names:
        run([*command, ROOT / name], {"SOURCE_DATE_EPOCH": str(epoch)})
    files = sorted([*folder.glob("laneway_*.whl"), *folder.glob("laneway_*.tar.gz")])
    run([python, "-m", "twine", "check", "--strict", *files])
    return files
