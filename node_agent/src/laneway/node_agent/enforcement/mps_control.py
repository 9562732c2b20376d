"""Talks to NVIDIA's MPS control daemon: its files, and its commands (https://docs.nvidia.com/deploy/mps/).

Commands go to the standard input of the daemon's program without an option, which answers on standard output.
Clients, and commands that change nothing, use the socket ``control``. Commands that change something use
``control_privileged``, which only the daemon's own user may connect to. A container's root is that user, so
clients get a folder without this socket.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from laneway.api.names import MPS_CLIENTS_NAME

PROGRAM = "nvidia-cuda-mps-control"
_PRIVILEGED_SOCKET = "control_privileged"
_PID_FILE = "nvidia-cuda-mps-control.pid"


@dataclass(frozen=True, slots=True)
class MPSFolders:
    """The folders of the daemon."""

    root: Path

    @property
    def pipe(self) -> Path:
        """Holds the daemon's sockets and pipes."""
        return self.root / "pipe"

    @property
    def clients(self) -> Path:
        """Holds hard links to what clients may use of the pipe folder."""
        return self.root / MPS_CLIENTS_NAME

    @property
    def log(self) -> Path:
        """Holds the daemon's log and output."""
        return self.root / "log"

    @property
    def pid_file(self) -> Path:
        """The daemon's pid, as the daemon sees it."""
        return self.pipe / _PID_FILE

    def make(self) -> None:
        """Create the folders.

        Raises:
            OSError: the root cannot be written to.
        """
        for folder in (self.pipe, self.clients, self.log):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o755)

    def share(self) -> None:
        """Link what the daemon has in its pipe folder into the clients' folder, without the privileged socket.

        Mounts of a folder show later links, so containers that run reach a restarted daemon too.

        Raises:
            OSError: a link cannot be made or removed.
        """
        served = {each.name: each for each in self.pipe.iterdir() if each.name != _PRIVILEGED_SOCKET}
        for link in self.clients.iterdir():
            if link.name in served and os.path.samestat(link.lstat(), served[link.name].lstat()):
                del served[link.name]
            else:
                link.unlink()
        for name, file in served.items():
            (self.clients / name).hardlink_to(file)


class MPSControl:
    """Sends commands to the daemon of a folder."""

    def __init__(self, folders: MPSFolders, timeout_seconds: float = 10.0) -> None:
        """Prepare; nothing is sent yet.

        Args:
            folders: the daemon's.
            timeout_seconds: time limit for the answer.
        """
        self._timeout_seconds = timeout_seconds
        self.environment = {
            **os.environ,
            "CUDA_MPS_PIPE_DIRECTORY": str(folders.pipe),
            "CUDA_MPS_LOG_DIRECTORY": str(folders.log),
        }

    def ask(self, *commands: str) -> list[str]:
        """Send commands and return the lines of the answers.

        Raises:
            OSError: the program cannot be run.
            subprocess.SubprocessError: the daemon does not answer, or refuses.
        """
        done = subprocess.run(
            [PROGRAM],
            input="".join(f"{command}\n" for command in commands),
            env=self.environment,
            timeout=self._timeout_seconds,
            capture_output=True,
            text=True,
            errors="replace",
            check=True,
        )
        return done.stdout.splitlines()


def failure_reason(error: OSError | subprocess.SubprocessError) -> str:
    """Return why a command failed, in the program's own words where it said something."""
    if isinstance(error, subprocess.CalledProcessError):
        lines: Sequence[str] = f"{error.stdout or ''}{error.stderr or ''}".strip().splitlines()
        return lines[-1] if lines else f"exit status {error.returncode}"
    if isinstance(error, subprocess.TimeoutExpired):
        return f"no answer within {error.timeout:.0f} s"
    return str(error)
