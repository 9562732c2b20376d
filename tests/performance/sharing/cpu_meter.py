"""How busy the machine's cores were: where they are all busy, CPUs and not GPUs decide the figures."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

_STAT = Path("/proc/stat")
_IDLE_FIELDS = (3, 4)
"""Of the first line: idle, and waiting for I/O."""


class CPUMeter:
    """The mean number of cores that were busy in a stretch of time, with everything on the machine."""

    def __init__(self) -> None:
        self.cores_busy = 0.0
        self._began: tuple[float, float] = (0.0, 0.0)

    def __enter__(self) -> Self:
        self._began = time.monotonic(), _busy_seconds()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        began_seconds, busy_seconds = self._began
        elapsed_seconds = time.monotonic() - began_seconds
        self.cores_busy = round((_busy_seconds() - busy_seconds) / elapsed_seconds, 2)


def _busy_seconds() -> float:
    ticks = [int(each) for each in _STAT.read_text(encoding="ascii").splitlines()[0].split()[1:9]]
    return sum(tick for at, tick in enumerate(ticks) if at not in _IDLE_FIELDS) / os.sysconf("SC_CLK_TCK")
