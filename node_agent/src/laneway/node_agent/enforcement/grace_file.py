"""Saves spent grace in ``/var/lib/laneway/agent/grace.json``, so that no container gains a new grace by a
restart of the agent."""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path
from typing import Literal

from laneway.api.records import Record, explain
from laneway.node_agent.atomic_file import write_atomically
from pydantic import ValidationError

GRACE_NAME = "grace.json"

_log = logging.getLogger(__name__)


class SpentGrace(Record):
    """The grace that one container has spent on one GPU."""

    gpu: str
    key: str
    """The container's key; empty: it has no share of the GPU."""

    pod_uid: str
    cgroup: str
    """The container's cgroup within its pod's; a container that the kubelet starts again has another."""

    spent_seconds: int
    stops: int = 0
    """How often its processes were stopped since it last had its whole grace."""


class GraceRecord(Record):
    """The whole file."""

    version: Literal[1] = 1
    spent: tuple[SpentGrace, ...]


class GraceFile:
    """The file. It is written when a figure has changed; a folder that cannot be written to is logged once."""

    def __init__(self, agent_state: Path) -> None:
        self._path = agent_state / GRACE_NAME
        self._written: tuple[SpentGrace, ...] | None = None
        self._failed = False

    def read(self) -> tuple[SpentGrace, ...]:
        """Return what was saved. An unusable file is logged and counts as empty."""
        try:
            self._written = GraceRecord.model_validate_json(self._path.read_bytes()).spent
        except FileNotFoundError:
            return ()
        except OSError as error:
            _log.error("spent grace is lost path=%s error=%r", self._path, error.strerror)
            return ()
        except ValidationError as error:
            _log.error("spent grace is lost error=%r", explain(error, str(self._path)))
            return ()
        return self._written

    def write(self, spent: Collection[SpentGrace]) -> None:
        """Replace the file if something changed."""
        new = tuple(sorted(spent, key=lambda each: (each.gpu, each.key, each.pod_uid, each.cgroup)))
        if new == (self._written or ()):
            return
        try:
            write_atomically(self._path, GraceRecord(spent=new).model_dump_json(), mode=0o600)
        except OSError as error:
            if not self._failed:
                _log.error("cannot save spent grace path=%s error=%r", self._path, str(error))
            self._failed = True
            return
        self._written, self._failed = new, False
