"""Saves the limits that the MPS control daemon confirmed in ``/var/lib/laneway/agent/mps-limits.json``: the daemon
outlives the agent, and so do the limits of its clients."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path
from typing import Literal

from laneway.api.records import Record, explain
from laneway.node_agent.atomic_file import write_atomically
from pydantic import ValidationError

MPS_LIMITS_NAME = "mps-limits.json"

_log = logging.getLogger(__name__)


class ConfirmedLimit(Record):
    """A limit of each client's memory on one GPU, as the daemon read it back."""

    gpu: str
    limit_bytes: int
    since_ticks: int
    """A process that started since then never had a higher limit; in clock ticks since boot."""


class MPSLimitsRecord(Record):
    """The whole file."""

    version: Literal[1] = 1
    limits: tuple[ConfirmedLimit, ...]


class MPSLimitsFile:
    """The file. Without it, processes that run already count as not limited."""

    def __init__(self, agent_state: Path) -> None:
        self._path = agent_state / MPS_LIMITS_NAME
        self._written: tuple[ConfirmedLimit, ...] = ()

    def read(self) -> tuple[ConfirmedLimit, ...]:
        """Return what was saved. An unusable file is logged and counts as empty."""
        try:
            self._written = MPSLimitsRecord.model_validate_json(self._path.read_bytes()).limits
        except FileNotFoundError:
            return ()
        except OSError as error:
            _log.error("confirmed MPS limits are lost path=%s error=%r", self._path, error.strerror)
        except ValidationError as error:
            _log.error("confirmed MPS limits are lost error=%r", explain(error, str(self._path)))
        return self._written

    def write(self, limits: Collection[ConfirmedLimit]) -> None:
        """Replace the file if something changed. A folder that cannot be written to is logged."""
        new = tuple(sorted(limits, key=lambda each: each.gpu))
        if new == self._written:
            return
        self._written = new
        try:
            write_atomically(self._path, MPSLimitsRecord(limits=new).model_dump_json(), mode=0o600)
        except OSError as error:
            _log.error("cannot save confirmed MPS limits path=%s error=%r", self._path, str(error))
