"""Notebooks: the end of a cell ends its iteration, so that an idle kernel holds no turn."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def call_after_cells(then: Callable[[], None]) -> None:
    """Calls `then` after each cell, however it ends. Does nothing outside notebook kernels and IPython
    shells."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None:
        shell.events.register("post_execute", then)
