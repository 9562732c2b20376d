"""The listeners of the node: one per container, opened when the container appears and closed when it is
gone."""

from __future__ import annotations

import logging
import resource
from collections.abc import Mapping
from pathlib import Path

from laneway.api.container_record import ContainerRecord
from laneway.node_agent.clock import Clock
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.rate_limited_log import RateLimitedLog
from laneway.node_agent.sessions.broker import SessionBroker
from laneway.node_agent.sessions.limits import Limits, processes_per_container
from laneway.node_agent.sessions.listener import Listener
from laneway.node_agent.turns.gpu_turns import GPUTurns

_log = logging.getLogger(__name__)


class Listeners:
    """Handles the events of the container registry."""

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
        self._limited_log = RateLimitedLog(_log, clock)
        self._descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._listeners: dict[str, tuple[Listener, SessionBroker]] = {}

    def container_added(self, record: ContainerRecord, folder: Path) -> None:
        """Add the container to its GPUs and listen for its processes."""
        for gpu in record.shares:
            self._gpus[gpu].allocate(record)
        self._open(record, folder)

    def _open(self, record: ContainerRecord, folder: Path) -> None:
        broker = SessionBroker(self._gpus, self._quantum_seconds, self._loop, self._clock)
        try:
            listener = Listener(
                folder, record, broker, self._loop, self._clock, self._limits, self._processes_per_container
            )
        except OSError as error:
            self._log_no_socket(folder, error)
            return
        broker.listener = listener
        self._listeners[record.key] = (listener, broker)
        _log.info("container added container=%s key=%s shares=%r", listener.name, record.key, _shares(record))

    def container_updated(self, record: ContainerRecord) -> None:
        """Update what is known of the container."""
        for gpu in record.shares:
            self._gpus[gpu].allocate(record)
        if record.key in self._listeners:
            self._listeners[record.key][0].record = record

    def container_is_connected(self, key: str) -> bool:
        """Return whether processes of the container are connected."""
        return key in self._listeners and bool(self._listeners[key][0].connections)

    def ensure_container_socket(self, record: ContainerRecord, folder: Path) -> None:
        """Open the socket again if that failed before or the socket was removed."""
        if record.key not in self._listeners:
            self._open(record, folder)
            return
        listener = self._listeners[record.key][0]
        try:
            listener.ensure_listening()
        except OSError as error:
            self._log_no_socket(listener.folder, error)

    def container_removed(self, key: str) -> None:
        """Remove the container and its leases."""
        for turns in self._gpus.values():
            if key in turns.leases:
                turns.remove_container(key)
        if key in self._listeners:
            listener, broker = self._listeners.pop(key)
            listener.close()
            broker.discard_all()
            _log.info("container removed container=%s key=%s", listener.name, key)

    def _log_no_socket(self, folder: Path, error: OSError) -> None:
        self._limited_log.warning(
            str(folder), f"cannot open socket, will retry folder={folder} error={str(error)!r}"
        )

    def _processes_per_container(self) -> int:
        return processes_per_container(self._limits, len(self._listeners), self._descriptors)

    def close(self) -> None:
        """Close all listeners; the containers' leases stay."""
        for listener, _ in self._listeners.values():
            listener.close()


def _shares(record: ContainerRecord) -> str:
    return ", ".join(f"{percent}% of {gpu}" for gpu, percent in sorted(record.shares.items()))
