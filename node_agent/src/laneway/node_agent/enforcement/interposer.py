"""The memory interposer: whether containers of this node get it, and what may be held without it."""

from __future__ import annotations

from pathlib import Path

from laneway.api.container_record import ContainerRecord
from laneway.api.enforcement import LEVELS, Enforcement, reaches
from laneway.api.names import INTERPOSER_NAME, PRELOAD_NAME
from laneway.node_agent.turns.gpu_turns import GPUTurns


def no_interposer_reason(client: Path) -> str:
    """Return why containers get no interposer, as a clause; empty if they do.

    Args:
        client: the client's folder on the host.
    """
    for name in (INTERPOSER_NAME, PRELOAD_NAME):
        if not (client / name).is_file():
            return f"{client / name} does not exist; it comes with the client's image"
    return ""


def uninterposed_bytes(turns: GPUTurns, record: ContainerRecord) -> int | None:
    """Return how much of a GPU a process of a container may hold without the interposer; None: any amount.

    A container that was allocated before the node had the interposer runs without it through no fault of its own.
    A process may have a CUDA context before its first allocation, so the framework's own memory is allowed.
    """
    demanded = record.minimum_enforcement
    known = demanded in {level.value for level in LEVELS}
    if not (turns.gpu.interposer and record.interposer):
        return None
    if not known or not reaches(demanded, Enforcement.INTERPOSER):
        return None
    return turns.own_framework_bytes
