"""Runs a system program; its failure becomes an error with its output."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hack.cluster.progress import ClusterError


def run(command: Sequence[str | Path], *, stdin: str | None = None) -> str:
    """Returns the standard output of a program that must succeed."""
    done = subprocess.run(list(map(str, command)), input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(
            f"{' '.join(map(str, command))} failed with status {done.returncode}: {(done.stderr or done.stdout).strip()}"
        )
    return done.stdout


def succeeds(command: Sequence[str | Path]) -> bool:
    """Returns whether a program exits with status 0. Its output is dropped."""
    try:
        return subprocess.run(list(map(str, command)), capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def die_with_parent() -> list[str]:
    """The command prefix that makes the kernel end a program with `kill -9` when the thread that started it ends."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
