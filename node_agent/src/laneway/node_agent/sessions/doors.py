"""All doors of the node: opens one for each container that comes, and closes it when the container goes."""

from __future__ import annotations

import logging
import resource
from collections.abc import Mapping
from pathlib import Path

from laneway.api.container_record import ContainerRecord
from laneway.node_agent.clock import Clock
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.quiet_log import QuietLog
from laneway.node_agent.sessions.broker import SessionBroker
from laneway.node_agent.sessions.door import Door
from laneway.node_agent.sessions.limits import Limits, processes_per_container
from laneway.node_agent.turns.gpu_turns import GPUTurns

_log = logging.getLogger(__name__)


class Doors:
    """Listens to the registry of containers."""

    def __init__(
        self,
        gpus: Mapping[str, GPUTurns],
        quantum_seconds: float,
        loop: EventLoop,
        clock: Clock,
        limits: Limits | None = None,
    ) -> None:
        self._gpus = gpus
        self._quantum_seconds = quantum_seconds
        self._loop = loop
        self._clock = clock
        self._limits = limits or Limits()
        self._quiet = QuietLog(_log, clock)
        self._descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._doors: dict[str, tuple[Door, SessionBroker]] = {}

    def container_came(self, record: ContainerRecord, folder: Path) -> None:
        """Count the container on its GPUs and let its processes in."""
        for gpu in record.shares:
            self._gpus[gpu].allocate(record)
        self._open(record, folder)

    def _open(self, record: ContainerRecord, folder: Path) -> None:
        broker = SessionBroker(self._gpus, self._quantum_seconds, self._loop, self._clock)
        try:
            door = Door(
                folder, record, broker, self._loop, self._clock, self._limits, self._processes_per_container
            )
        except OSError as error:
            self._no_socket(folder, error)
            return
        broker.door = door
        self._doors[record.key] = (door, broker)
        _log.info("%s holds %s (%s)", door.who, _shares(record), record.key)

    def container_news(self, record: ContainerRecord) -> None:
        """Follow what is known of the container."""
        for gpu in record.shares:
            self._gpus[gpu].allocate(record)
        if record.key in self._doors:
            self._doors[record.key][0].record = record

    def container_is_connected(self, key: str) -> bool:
        """Whether processes of the container are connected."""
        return key in self._doors and bool(self._doors[key][0].connections)

    def container_look_after(self, record: ContainerRecord, folder: Path) -> None:
        """Open the door (again) if it could not be opened before, or somebody took the socket away."""
        if record.key not in self._doors:
            self._open(record, folder)
            return
        door = self._doors[record.key][0]
        try:
            door.look_after()
        except OSError as error:
            self._no_socket(door.folder, error)

    def container_went(self, key: str) -> None:
        """Forget the container and all that it holds."""
        for turns in self._gpus.values():
            if key in turns.holds:
                turns.forget(key)
        if key in self._doors:
            door, broker = self._doors.pop(key)
            door.close()
            broker.discard_all()
            _log.info("%s gave back its shares (%s)", door.who, key)

    def _no_socket(self, folder: Path, error: OSError) -> None:
        self._quiet.warning(str(folder), f"{folder}: no socket can be opened: {error}; it is tried again")

    def _processes_per_container(self) -> int:
        return processes_per_container(self._limits, len(self._doors), self._descriptors)

    def close(self) -> None:
        """Close all doors; the containers stay as they are."""
        for door, _ in self._doors.values():
            door.close()


def _shares(record: ContainerRecord) -> str:
    return ", ".join(f"{percent}% of {gpu}" for gpu, percent in sorted(record.shares.items()))
