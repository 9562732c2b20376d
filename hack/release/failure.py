"""How a step of the release fails, and how its programs are run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class ReleaseError(Exception):
    """A part of the release cannot be built; the message says why and what to do."""


def run(
    command: Sequence[str | Path], environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> str:
    """Returns the standard output of a program, which gets the variables of `environment` besides its own.

    Raises:
        ReleaseError: it is not installed, or failed; the message has its output.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words,
            env={**os.environ, **(environment or {})},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise ReleaseError(f"not installed: {words[0]}") from error
    if done.returncode != 0:
        raise ReleaseError(
            f"{' '.join(words)} ended with status {done.returncode}:\n{(done.stdout + done.stderr).strip()}"
        )
    return done.stdout
