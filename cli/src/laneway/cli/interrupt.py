"""Ctrl-C as a flag that work checks between two steps, so that its results so far are complete."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType


class InterruptFlag:
    """Within its ``with`` block, the first SIGINT sets the flag; the second one interrupts at once, as usual."""

    def __init__(self) -> None:
        self.is_set = False
        """Whether there was a SIGINT."""

        self._previous: object = None

    def __enter__(self) -> InterruptFlag:
        self._previous = signal.signal(signal.SIGINT, self._set)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._previous)  # type: ignore[arg-type]  # what signal.signal returned

    def _set(self, number: int, frame: FrameType | None) -> None:
        if self.is_set:
            raise KeyboardInterrupt
        self.is_set = True
