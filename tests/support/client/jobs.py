"""Jobs on a node: a container's record, and a script with real PyTorch that sees what a container sees."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.node_agent.node import Container, Node, eventually
from tests.support.torch_runtime import REPOSITORY, TorchRuntime, torch_runtime

SCRIPTS = Path(__file__).with_name("scripts")
EXAMPLES = REPOSITORY / "examples"
JOIN_TIMEOUT_SECONDS = 240.0


class Job:
    """One process."""

    def __init__(
        self,
        command: list[str],
        work: Path,
        *,
        container: Container | None = None,
        laneway: Path | None = None,
        scripts: Path = SCRIPTS,
        runtime: TorchRuntime | None = None,
        **environment: str,
    ) -> None:
        work.mkdir(parents=True, exist_ok=True)
        agent_folder = laneway if container is None else container.await_socket().folder
        self.work = work
        self._process = (runtime or torch_runtime()).start(
            command, scripts, work, agent_folder, **environment
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def lines(self) -> list[str]:
        """Waits for its success; returns the printed lines."""
        output, errors = self._end()
        assert self._process.returncode == 0, f"exit status {self._process.returncode}:\n{output}\n{errors}"
        assert "laneway" not in errors.lower(), errors
        return output.splitlines()

    def results(self) -> list[dict[str, Any]]:
        """Returns the lines that are JSON."""
        return [json.loads(line) for line in self.lines() if line.startswith("{")]

    def failure(self) -> tuple[int, str, str]:
        """Waits for its end; returns exit status, output and errors."""
        output, errors = self._end()
        return self._process.returncode, output, errors

    def line(self) -> str:
        """Returns the next printed line."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"it ended: {self._end()[1]}"
        return line.strip()

    def enough(self) -> None:
        """Ends a script that trains until it is told to stop, so that the number of steps is independent of
        speed."""
        (self.work / "enough").touch()

    def terminate(self) -> None:
        """Does what a pod's deletion does first."""
        os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Ends it in any case, and what it has started."""
        self._kill_all()
        self._end()

    def _end(self) -> tuple[str, str]:
        try:
            output, errors = self._process.communicate(timeout=JOIN_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill_all()
            output, errors = self._process.communicate()
            raise AssertionError(f"still running:\n{output}\n{errors}") from None
        except ValueError:  # it was read to its end before
            return "", ""
        return output, errors

    def _kill_all(self) -> None:
        self._process.kill()
        stdout = self._process.stdout
        if stdout is not None and not stdout.closed:
            for pid in writers_of(stdout.fileno()):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def writers_of(pipe: int) -> set[int]:
    """Returns the other processes that have a pipe open. A worker of torchrun is one after its launcher's end, in a session of its own:
    as long as it lives, a job's output has no end."""
    own = os.readlink(f"/proc/self/fd/{pipe}")
    found = set()
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if os.readlink(descriptor) == own:
                found.add(int(descriptor.parts[2]))
    return found - {os.getpid()}


def end_of(node: Node, pod: str) -> dict[str, Any]:
    """Returns what the agent publishes about a pod once its processes have ended."""

    def ended() -> dict[str, Any] | None:
        session = node.session(pod)
        return None if session["processes"] else session

    found: dict[str, Any] = eventually(f"the end of {pod} is seen", ended)
    return found


def iterations(node: Node, pod: str) -> int:
    """Returns how many iterations of a pod the agent has counted in turns, once its processes have ended."""
    end_of(node, pod)
    return sum(turn["iterations"] for turn in turns(node, pod))


def turns(node: Node, pod: str) -> list[dict[str, Any]]:
    """Returns the agent's record of a pod's finished turns."""
    return [turn for turn in node.get("/turns") if turn["pod"] == pod and turn["end_seconds"] is not None]
