"""How busy the machine was: the figures mean little without."""

from __future__ import annotations

import os
import threading
from statistics import fmean
from types import TracebackType
from typing import Self

_EVERY_SECONDS = 10.0


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
