"""Laneway's client, which runs in users' containers.

PyTorch scripts do not need this API: their iterations are detected. It serves other frameworks, and scripts
that report progress or save checkpoints:

    from laneway.client import Checkpoint, batch_size, expect_iterations, iteration, iterations, report, stopping

Without Laneway the same calls work and have no effect. Names are imported on first use, because this module
is loaded at the start of every Python process in a container.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

    from laneway.client.batching import batch_size
    from laneway.client.checkpoint import Checkpoint
    from laneway.client.script_api import expect_iterations, iteration, iterations, report, stopping

__all__ = ["Checkpoint", "batch_size", "expect_iterations", "iteration", "iterations", "report", "stopping"]


def __dir__() -> List[str]:
    return __all__


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "Checkpoint":
        from laneway.client.checkpoint import Checkpoint

        return Checkpoint
    if name == "batch_size":
        from laneway.client.batching import batch_size

        return batch_size
    from laneway.client import script_api

    return getattr(script_api, name)
