"""Since when this process's work would be lost if the process ended now.

Work is saved up to the *start* of the last checkpoint that was written completely: what is trained during
the save is in no file. Without a checkpoint, all work of the process would be lost. Times are Unix times.
"""

from __future__ import annotations

import time
from typing import Any, Final, Optional

REMEMBERED_LOADS: Final = 256


class SavedWork:
    """What the checkpoints of this process hold. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self.trained_since: Optional[float] = None
        """When the first step of an optimizer ended; None: the process does not train."""
        self.saved_at: Optional[float] = None
        """When the last complete checkpoint was begun."""
        self.loaded_from: Optional[float] = None
        """When the newest checkpoint was written that was loaded before the training began."""
        self._loads: list[tuple[float, float]] = []

    @property
    def expects_loads(self) -> bool:
        """Whether a loaded file may still matter: not once the training has begun, and not after many files, which are data."""
        return self.trained_since is None and len(self._loads) < REMEMBERED_LOADS

    def note_load(self, elements: float, written_at: float) -> None:
        """Records a file that was loaded; once the training has begun, that resumes nothing.

        Args:
            elements: how many numbers its tensors hold.
            written_at: when it was written.
        """
        if self.expects_loads:
            self._loads.append((elements, written_at))

    def begin_training(self, trained_elements: int) -> bool:
        """Records that training has begun; returns False if that is known.

        Args:
            trained_elements: how many numbers the optimizer trains. A smaller file is no checkpoint of them.
        """
        if self.trained_since is not None:
            return False
        self.loaded_from = max((at for size, at in self._loads if size >= trained_elements), default=None)
        self._loads.clear()
        self.trained_since = time.time()
        return True

    def note_save(self, began_at: float) -> None:
        """Records a complete checkpoint."""
        if self.saved_at is None or began_at > self.saved_at:
            self.saved_at = began_at

    def fields(self) -> dict[str, Any]:
        """Returns the fields of the message `report`; none before the training begins."""
        if self.trained_since is None:
            return {}
        saved = self.saved_at is not None and self.saved_at > self.trained_since
        return {
            "unsaved_since": self.saved_at if saved else self.trained_since,
            "checkpointed": saved,
            "loaded_from": self.loaded_from,
        }
