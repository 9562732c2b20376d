"""The listeners of the node: some per container, opened when the container appears and closed when it is
gone."""

from __future__ import annotations

import logging
import resource
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from laneway.api.container_record import ContainerRecord
from laneway.node_agent.clock import Clock
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.rate_limited_log import RateLimitedLog
from laneway.node_agent.sessions.limits import Limits, ProcessLimits, process_limits
from laneway.node_agent.sessions.listener import Listener, SocketServer
from laneway.node_agent.turns.gpu_turns import GPUTurns

_log = logging.getLogger(__name__)


class Listeners:
    """Handles the events of the container registry."""

    def __init__(
        self,
        gpus: Mapping[str, GPUTurns],
        servers: Sequence[Callable[[], SocketServer]],
        loop: EventLoop,
        clock: Clock,
        limits: Limits,
    ) -> None:
        """Start without a container.

        Args:
            gpus: the node's GPUs.
            servers: make what serves a new container, one for each of its sockets. The device plugin waits for
                the session's socket, so that comes last.
            loop: the event loop.
            clock: the loop's clock.
            limits: limits on each container.
        """
        self._gpus = gpus
        self._servers = servers
        self._loop = loop
        self._clock = clock
        self._limits = limits
        self._limited_log = RateLimitedLog(_log, clock)
        self._descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._listeners: dict[str, dict[int, tuple[Listener, SocketServer]]] = {}
        """By the container's key and the number of the server."""

    def container_added(self, record: ContainerRecord, folder: Path) -> None:
        """Add the container to its GPUs and listen for its processes."""
        for gpu in record.shares:
            self._gpus[gpu].allocate(record)
        self._listeners[record.key] = {}
        self._open_missing(record, folder)

    def _open_missing(self, record: ContainerRecord, folder: Path) -> None:
        opened = self._listeners[record.key]
        for number, make in enumerate(self._servers):
            if number in opened:
                continue
            server = make()
            try:
                listener = Listener(
                    folder,
                    record,
                    server,
                    self._loop,
                    self._clock,
                    self._limits,
                    self._process_limits,
                )
            except OSError as error:
                server.discard_all()
                self._log_no_socket(folder, error)
                return
            server.listener = listener
            opened[number] = listener, server
        name = f"{record.namespace}/{record.pod}/{record.container}"
        _log.info("container added container=%s key=%s shares=%r", name, record.key, _shares(record))

    def container_updated(self, record: ContainerRecord) -> None:
        """Update what is known of the container."""
        for gpu in record.shares:
            self._gpus[gpu].allocate(record)
        for listener, _ in self._listeners.get(record.key, {}).values():
            listener.record = record

    def container_is_connected(self, key: str) -> bool:
        """Return whether processes of the container are connected."""
        return any(listener.connections for listener, _ in self._listeners.get(key, {}).values())

    def ensure_container_socket(self, record: ContainerRecord, folder: Path) -> None:
        """Open the sockets again if that failed before or they were removed."""
        opened = self._listeners[record.key]
        for listener, _ in opened.values():
            try:
                listener.ensure_listening()
            except OSError as error:
                self._log_no_socket(listener.folder, error)
        if len(opened) < len(self._servers):
            self._open_missing(record, folder)

    def container_removed(self, key: str) -> None:
        """Remove the container and its leases."""
        for turns in self._gpus.values():
            if key in turns.leases:
                turns.remove_container(key)
        opened = self._listeners.pop(key, {})
        for listener, server in opened.values():
            listener.close()
            server.discard_all()
        for listener, _ in list(opened.values())[:1]:
            _log.info("container removed container=%s key=%s", listener.name, key)

    def _log_no_socket(self, folder: Path, error: OSError) -> None:
        self._limited_log.warning(
            str(folder), f"cannot open socket, will retry folder={folder} error={str(error)!r}"
        )

    def _process_limits(self) -> ProcessLimits:
        return process_limits(self._limits, len(self._listeners), self._descriptors)

    def close(self) -> None:
        """Close all listeners; the containers' leases stay."""
        for opened in self._listeners.values():
            for listener, _ in opened.values():
                listener.close()


def _shares(record: ContainerRecord) -> str:
    return ", ".join(f"{percent}% of {gpu}" for gpu, percent in sorted(record.shares.items()))
