"""Ctrl-C as a question that work asks between two steps, so that what is done so far is whole."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType


class Interruption:
    """While it is entered, the first SIGINT is noted; the second interrupts at once, as is usual."""

    def __init__(self) -> None:
        self.came = False
        """Whether there was one."""

        self._before: object = None

    def __enter__(self) -> Interruption:
        self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]  # what signal.signal returned

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.came:
            raise KeyboardInterrupt
        self.came = True
