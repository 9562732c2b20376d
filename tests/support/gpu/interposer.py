"""The interposer for a machine without containers: one library whose folder is written into it afterwards.

In a container the library looks for the agent's sockets in `/run/laneway`, and `/etc/ld.so.preload` loads it. Without root and
mount namespaces there is neither, so each job has a copy with its own folder, which `LD_PRELOAD` loads.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "node_agent/interposer/build.sh"
NAME = "liblaneway-interposer.so"
PREBUILT = ROOT / ".wheels" / NAME
"""Made by `make gpu-wheels`, for a machine without a C compiler."""

PLACE = b"/laneway-directory".ljust(90, b"_")
"""Stands for the folder in the built library. With `/account.sock` it is as long as a socket's path may be."""


def zig(machine: str) -> list[str]:
    """The compiler that comes as a wheel, for glibc 2.17 and later."""
    return [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu.2.17", "-s"]


def build(folder: Path, compiler: Sequence[str]) -> Path:
    """Build the library without a folder of its own; returns its path."""
    command = ["sh", str(BUILD), str(folder), *compiler, f'-DLANEWAY_DIRECTORY="{PLACE.decode()}"']
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    return folder / NAME


def why_no_interposer() -> str:
    """Return why there is no library for this machine, and what to do; empty if there is one."""
    if _compiler() or PREBUILT.exists():
        return ""
    return f"no C compiler (gcc, cc) and no {PREBUILT} to test the interposer: run make gpu-wheels, and copy .wheels with the sources"


def unplaced_interposer(folder: Path) -> Path:
    """Return the library, built here if this machine has a compiler.

    Args:
        folder: where it may be built.
    """
    compiler = _compiler()
    return build(folder, compiler) if compiler else PREBUILT


def _compiler() -> list[str]:
    found = shutil.which("gcc") or shutil.which("cc")
    if found:
        return [found]
    return zig(platform.machine()) if importlib.util.find_spec("ziglang") else []


def place(library: Path, directory: Path, copy: Path) -> Path:
    """Write a copy of the library that finds the agent's sockets in a folder; returns the copy.

    Raises:
        ValueError: the folder's path is too long, or the library has a folder already.
    """
    path, content = os.fsencode(directory), library.read_bytes()
    if len(path) > len(PLACE):
        raise ValueError(f"{directory} has more than {len(PLACE)} bytes: choose a shorter TMPDIR")
    if PLACE not in content:
        raise ValueError(f"{library} was not built for this: run make gpu-wheels again")
    copy.write_bytes(content.replace(PLACE, path.ljust(len(PLACE), b"/")))
    return copy
