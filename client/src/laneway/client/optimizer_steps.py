"""Which end of an optimizer's step is the end of an iteration, where a script has more than one optimizer.

The end of a step is the boundary. Two things make that less simple:

- **Steps in a row**, with no forward in between (one optimizer for the matrices and one for the rest, say), belong to one iteration. That
  a step is followed by another is learned when it happens: the first time, the second step is a turn of its own that is not counted; from
  then on the iteration ends with the last. An optimizer that was followed and then is not is never waited for again.
- **A step within a step**: an optimizer that wraps another steps it. The outer one's end counts.

Nothing here knows PyTorch: an optimizer is a key.
"""

from __future__ import annotations

from typing import Final, Optional

NOT_YET: Final = 0
"""The iteration goes on."""
CONTINUED: Final = 1
"""A boundary; but what ends is the rest of an iteration that has been counted already."""
ITERATION: Final = 2
"""A boundary, at which an iteration has ended."""


class OptimizerSteps:
    """The steps of one process, as they come."""

    def __init__(self) -> None:
        self._outermost: Optional[int] = None
        """The optimizer whose step goes on."""
        self._within: set[int] = set()
        """Those that were stepped since that one began: by it, or because its own step failed and never ended."""
        self._last: Optional[int] = None
        """Whose step's end was the last boundary, until a forward begins the next iteration."""
        self._continues = False
        self._followed: set[int] = set()
        """After the step of one of these comes another's."""
        self._unsteady: set[int] = set()
        """Those of which that was once expected in vain."""
        self._row: set[int] = set()
        """Those that have stepped since the last forward, each once: a second step begins a new row."""
        self.awaiting: Optional[int] = None
        """The optimizer after whose step the iteration went on, until another one steps."""

    def forward(self) -> bool:
        """A forward begins. Returns whether the iteration that goes on has ended before it: the step that it waited for does not come."""
        self._last = None
        if self.awaiting is None:
            self._row.clear()
            return False
        return self._outermost is None and self._stop_waiting()

    def begins(self, optimizer: int, inside: bool) -> bool:
        """An optimizer's step begins.

        Args:
            optimizer: whose.
            inside: an iteration goes on.

        Returns:
            Whether that iteration has ended before this step: there was no forward, and yet the round begins again.
        """
        outermost = self._outermost
        if outermost is not None and outermost != optimizer and optimizer not in self._within:
            self._within.add(optimizer)
            return False
        self._outermost = optimizer
        self._within.clear()
        if inside:
            self._continues = False
            return self.awaiting is not None and optimizer in self._row and self._stop_waiting()
        again = optimizer in self._row
        self._continues = not again and self._last is not None
        if not self._continues:
            self._row.clear()
        elif self._last is not None and self._last not in self._unsteady:
            self._followed.add(self._last)
        return False

    def ends(self, optimizer: int) -> int:
        """An optimizer's step has ended; returns what that means: `NOT_YET`, `CONTINUED` or `ITERATION`."""
        if optimizer != self._outermost:
            return NOT_YET
        self._outermost = None
        self._row.add(optimizer)
        if optimizer in self._followed:
            self.awaiting = optimizer
            return NOT_YET
        self.awaiting = None
        self._last = optimizer
        return CONTINUED if self._continues else ITERATION

    def forget(self, optimizer: int) -> None:
        """An optimizer is gone; its key may come again as another's."""
        for keys in (self._followed, self._unsteady, self._row, self._within):
            keys.discard(optimizer)
        if self._outermost == optimizer:
            self._outermost = None
        if self._last == optimizer:
            self._last = None

    def _stop_waiting(self) -> bool:
        if self.awaiting is not None:
            self._followed.discard(self.awaiting)
            self._unsteady.add(self.awaiting)
        self.awaiting = None
        self._row.clear()
        return True
