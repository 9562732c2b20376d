"""Which processes of a container are the training, and which only help it.

A process that multiprocessing started (a worker of a DataLoader, a resource tracker) or that was forked counts as a helper until it
steps an optimizer: then it trains after all (`torch.multiprocessing.spawn`).
"""

from __future__ import annotations

import sys


def is_multiprocessing_child() -> bool:
    """Whether multiprocessing started this process, by fork, spawn or forkserver."""
    command = getattr(sys, "orig_argv", None) or getattr(sys, "argv", [])
    if "--multiprocessing-fork" in command or any("multiprocessing.forkserver" in word for word in command):
        return True
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None
