"""Notebooks: the end of a cell is the end of whatever it began, so that a kernel that waits for its user holds no turn."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def call_after_cells(then: Callable[[], None]) -> None:
    """Has `then` called after each cell, however it ends; does nothing in a process that is no notebook's kernel and no IPython shell."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None:
        shell.events.register("post_execute", then)
