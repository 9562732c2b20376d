"""What the machine is, and how busy it was: the figures mean little without."""

from __future__ import annotations

import os
import platform
import threading
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from types import TracebackType
from typing import Any, Self

_EVERY_SECONDS = 10.0


def machine() -> dict[str, Any]:
    """Return the machine and the date, for the results."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "kernel": platform.release(),
            "python": platform.python_version(),
        },
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


class LoadMeter:
    """The mean load average of a stretch of time: processes that run or want to, of everybody on the machine."""

    def __init__(self) -> None:
        self._samples: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    @property
    def mean(self) -> float:
        """Of the load averages of a minute."""
        return round(fmean(self._samples), 2)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while True:
            self._samples.append(os.getloadavg()[0])
            if self._over.wait(_EVERY_SECONDS):
                return
