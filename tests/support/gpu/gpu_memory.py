"""How much of a GPU's memory is in use while something runs, by the driver's account."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LOOK_SECONDS = 0.02


class Gauge:
    """Looks at one GPU; at none on a machine without."""

    def __init__(self, uuid: str | None) -> None:
        """Begin.

        Args:
            uuid: of the GPU; None: nothing is looked at, and all figures are None.
        """
        self._handle: Any = None
        if uuid is not None:
            import pynvml

            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)

    def used_bytes(self) -> int | None:
        """Return what is in use now, the driver's own reserve left out."""
        if self._handle is None:
            return None
        import pynvml

        return int(pynvml.nvmlDeviceGetMemoryInfo(self._handle, pynvml.nvmlMemory_v2).used)

    @contextmanager
    def watch(self) -> Iterator[list[int]]:
        """Yield a list that holds the highest use since the block began, once it is left; it stays empty without a GPU."""
        found: list[int] = []
        stopped = threading.Event()
        highest = 0

        def look() -> None:
            nonlocal highest
            while not stopped.wait(LOOK_SECONDS):
                highest = max(highest, self.used_bytes() or 0)

        thread = threading.Thread(target=look, daemon=True)
        if self._handle is not None:
            thread.start()
        try:
            yield found
        finally:
            stopped.set()
            if self._handle is not None:
                thread.join()
                found.append(highest)
