"""What stands in a session's place while there is no agent: a turn that nobody contests, on a page that nobody else reads.

So the way through an iteration is the same with and without an agent, and an agent that goes in the middle costs nothing but a swap.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.page import TURN, private_page

if TYPE_CHECKING:
    from collections.abc import Callable

FREE_TURN: Final = 1


class Detached:
    """Has the face of a `Session`; its one turn is always there."""

    closed = False

    def __init__(self) -> None:
        self.words = private_page()
        self.words[TURN] = FREE_TURN
        self.box: deque[int] = deque([FREE_TURN])

    def acquire(self, patience: Callable[[], Optional[float]]) -> Optional[int]:
        """Always succeeds."""
        self.box.clear()
        return FREE_TURN

    def give_way(self) -> None:
        """Nobody asks for it."""

    def interrupt(self) -> None:
        """Nobody waits."""

    def tell(self, kind: str, **fields: Any) -> None:
        """Nobody listens."""
