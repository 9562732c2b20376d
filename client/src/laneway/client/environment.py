"""The environment variables that the device plugin and the operator set in a container (docs/contracts.md, "What
`Allocate` puts into a container" and "Environment of a worker")."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Optional

if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET_NAME: Final = "agent.sock"
DEFAULT_STOP_TIMEOUT_SECONDS: Final = 20.0
"""Leaves time for a checkpoint within a pod's default grace period of 30 s between SIGTERM and SIGKILL."""

DEFAULT_AGENT_TIMEOUT_SECONDS: Final = 60.0
"""Long enough for an update of the agent, so that a lane keeps one holder across it."""


MAX_DIGITS: Final = 15
"""Of a number of samples."""


@dataclass(frozen=True)
class Environment:
    """Where the agent is, and what was allotted to the container."""

    socket_path: str
    gpus: tuple[str, ...]
    """The uuids of the container's GPUs."""
    local_rank: int
    """The index of this process in its container, where a launcher sets it (torchrun's LOCAL_RANK)."""
    stop_timeout_seconds: float
    """How long after SIGTERM to wait for an iteration boundary."""
    agent_timeout_seconds: float
    """How long to wait for a lost agent before the script continues without turns. An agent that stays silent
    for this long counts as lost."""
    fit: str = "Auto"
    """What may be done where an iteration's memory does not fit: Auto, Offload, Recompute or Off."""

    @classmethod
    def read(cls, variables: Mapping[str, str] = os.environ) -> Optional[Environment]:
        """Reads the variables; returns None where the container has no share."""
        folder = variables.get("LANEWAY_DIR", "")
        if not folder:
            return None
        return cls(
            socket_path=os.path.join(folder, SOCKET_NAME),
            gpus=tuple(gpu.strip() for gpu in variables.get("LANEWAY_GPUS", "").split(",") if gpu.strip()),
            local_rank=int(_number(variables.get("LOCAL_RANK", ""), 0)),
            stop_timeout_seconds=_number(
                variables.get("LANEWAY_STOP_TIMEOUT_SECONDS", ""), DEFAULT_STOP_TIMEOUT_SECONDS
            ),
            agent_timeout_seconds=_number(
                variables.get("LANEWAY_AGENT_TIMEOUT_SECONDS", ""), DEFAULT_AGENT_TIMEOUT_SECONDS
            ),
            fit=variables.get("LANEWAY_FIT", "Auto"),
        )

    @property
    def gpu(self) -> Optional[str]:
        """The GPU of this process; None where the container has only one, or the variable is missing, as in a
        cleared environment: the agent then chooses by the local rank."""
        if len(self.gpus) < 2:
            return None
        return self.gpus[self.local_rank % len(self.gpus)]


def chosen_batch(variables: Mapping[str, str] = os.environ) -> Optional[int]:
    """Returns the samples of a step of all workers that the operator chose for this attempt; None where it chose none."""
    text = variables.get("LANEWAY_BATCH", "")
    good = text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS
    return int(text) or None if good else None


def _number(text: str, otherwise: float) -> float:
    try:
        number = float(text)
    except ValueError:
        return otherwise
    return number if number >= 0 else otherwise
