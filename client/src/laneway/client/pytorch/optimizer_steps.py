"""Decides which optimizer step ends an iteration, where a script has several optimizers.

The end of a step is the boundary, with two exceptions:

- **Consecutive steps** without a forward in between (one optimizer for the matrices and one for the rest,
  say) belong to one iteration. That one step follows another is learned when it happens. The first time, the
  second step is a turn of its own that is not counted; from then on the iteration ends with the last step. An
  optimizer that was followed and then is not is never waited for again.
- **Nested steps**: an optimizer that wraps another one steps it. The end of the outer step counts.

This module does not depend on PyTorch: an optimizer is a key.
"""

from __future__ import annotations

from typing import Final, Optional

NO_BOUNDARY: Final = 0
"""The iteration continues."""
CONTINUATION: Final = 1
"""A boundary; but what ends is the rest of an iteration that has been counted already."""
ITERATION: Final = 2
"""A boundary at the end of an iteration."""


class OptimizerSteps:
    """Tracks the steps of one process."""

    def __init__(self) -> None:
        self._outermost: Optional[int] = None
        """The optimizer whose step is running."""
        self._within: set[int] = set()
        """Optimizers stepped since that step began: by it, or after it failed and never ended."""
        self._last: Optional[int] = None
        """The optimizer of the last boundary, until a forward begins the next iteration."""
        self._continues = False
        self._followed: set[int] = set()
        """Optimizers whose step is followed by another's."""
        self._mispredicted: set[int] = set()
        """Optimizers for which that prediction has failed once."""
        self._stepped: set[int] = set()
        """Optimizers stepped since the last forward, once each; a second step begins a new round."""
        self.awaiting: Optional[int] = None
        """The optimizer whose step did not end the iteration, until another optimizer steps."""

    def on_forward(self) -> bool:
        """Records a forward. Returns whether the current iteration has ended before it, because the awaited
        step does not come."""
        self._last = None
        if self.awaiting is None:
            self._stepped.clear()
            return False
        return self._outermost is None and self._stop_waiting()

    def on_begin(self, optimizer: int, in_iteration: bool) -> bool:
        """Records the begin of an optimizer's step.

        Args:
            optimizer: its key.
            in_iteration: an iteration is running.

        Returns:
            Whether that iteration has ended before this step: the round begins again without a forward.
        """
        outermost = self._outermost
        if outermost is not None and outermost != optimizer and optimizer not in self._within:
            self._within.add(optimizer)
            return False
        self._outermost = optimizer
        self._within.clear()
        if in_iteration:
            self._continues = False
            return self.awaiting is not None and optimizer in self._stepped and self._stop_waiting()
        again = optimizer in self._stepped
        self._continues = not again and self._last is not None
        if not self._continues:
            self._stepped.clear()
        elif self._last is not None and self._last not in self._mispredicted:
            self._followed.add(self._last)
        return False

    def on_end(self, optimizer: int) -> int:
        """Records the end of an optimizer's step; returns `NO_BOUNDARY`, `CONTINUATION` or `ITERATION`."""
        if optimizer != self._outermost:
            return NO_BOUNDARY
        self._outermost = None
        self._stepped.add(optimizer)
        if optimizer in self._followed:
            self.awaiting = optimizer
            return NO_BOUNDARY
        self.awaiting = None
        self._last = optimizer
        return CONTINUATION if self._continues else ITERATION

    def forget(self, optimizer: int) -> None:
        """Removes an optimizer that is gone; its key may be reused."""
        for keys in (self._followed, self._mispredicted, self._stepped, self._within):
            keys.discard(optimizer)
        if self._outermost == optimizer:
            self._outermost = None
        if self._last == optimizer:
            self._last = None

    def _stop_waiting(self) -> bool:
        if self.awaiting is not None:
            self._followed.discard(self.awaiting)
            self._mispredicted.add(self.awaiting)
        self.awaiting = None
        self._stepped.clear()
        return True
