"""Which of a container's processes train, and which only help.

A process that was forked or started by multiprocessing (a DataLoader's worker, a resource tracker) counts as
a helper until it steps an optimizer. Then it trains (`torch.multiprocessing.spawn`).
"""

from __future__ import annotations

import sys


def is_multiprocessing_child() -> bool:
    """Returns whether multiprocessing started this process, by fork, spawn or forkserver."""
    command = getattr(sys, "orig_argv", None) or getattr(sys, "argv", [])
    if "--multiprocessing-fork" in command or any("multiprocessing.forkserver" in word for word in command):
        return True
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None
