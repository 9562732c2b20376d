"""Laneway's client: what runs in a user's container.

A PyTorch script needs nothing of this: its iterations are found. For other frameworks, and for scripts that want to know:

    from laneway.client import Checkpoint, expect_iterations, iteration, iterations, report, stopping

All of it also works where Laneway is not there; then it does nothing. (The names are fetched when they are first used: this module
is loaded at the start of every Python process in a container.)
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from laneway.client.checkpoint import Checkpoint
    from laneway.client.explicit import expect_iterations, iteration, iterations, stopping
    from laneway.client.reporting import report

__all__ = ["Checkpoint", "expect_iterations", "iteration", "iterations", "report", "stopping"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "Checkpoint":
        from laneway.client.checkpoint import Checkpoint

        return Checkpoint
    if name == "report":
        from laneway.client.reporting import report

        return report
    from laneway.client import explicit

    return getattr(explicit, name)
