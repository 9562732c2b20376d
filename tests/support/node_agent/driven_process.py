"""A process that answers commands, one line each: its first line of output has its pid, and each answer is a line of JSON."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any


class DrivenProcess:
    """The process and its pipes. Subclasses know the commands."""

    def __init__(self, command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
        """Start it without waiting.

        Args:
            command: the program and its arguments.
            environment: all of its environment; None: the caller's.
        """
        self._process = subprocess.Popen(
            command,
            env=None if environment is None else dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @cached_property
    def pid(self) -> int:
        """Its process id, once it runs."""
        return int(self.answer(60)["pid"])

    def command(self, line: str) -> None:
        """Have a command begun, without waiting for its answer."""
        assert self.pid
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def answer(self, seconds: float) -> dict[str, Any]:
        """Wait for the next answer."""
        assert self._process.stdout is not None
        poller = select.poll()  # select() knows no descriptor above 1023
        poller.register(self._process.stdout, select.POLLIN)
        assert poller.poll(1000 * seconds), "the process does not answer"
        line = self._process.stdout.readline()
        assert line, f"the process has ended with status {self._process.wait(5)}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def leave(self) -> int:
        """Let it end by itself at the end of its input; returns its exit status."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(60)

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process.poll() is not None

    def await_end(self) -> None:
        """Wait until it has ended by itself."""
        self._process.wait(60)

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # a command that it did not live to read
                    pipe.close()
