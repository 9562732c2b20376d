"""Serves the plugin and keeps it registered with the running kubelet.

A restarting kubelet forgets its plugins and wipes the folder of their sockets. So the plugin serves first and
then registers. If its own socket is gone, it serves again. If the kubelet's socket has changed, or the
kubelet has dropped the stream of devices, it registers again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path

import grpc
import grpc.aio
from laneway.api import names
from laneway.device_plugin.folders import Folders
from laneway.device_plugin.grpc_methods import API_VERSION, device_plugin_handlers, register
from laneway.device_plugin.plugin_service import OPTIONS, PluginService
from laneway.device_plugin.proto.deviceplugin_pb2 import RegisterRequest

_log = logging.getLogger(__name__)

_REGISTER_SECONDS = 5.0
_STREAM_SECONDS = 5.0
"""The kubelet opens the stream of devices right after a registration; without one it has dropped the
plugin."""
_STOP_SECONDS = 0.5
_MAX_PAUSE_SECONDS = 10.0

_Identity = tuple[int, int]


def identity(path: Path) -> _Identity | None:
    """Return what distinguishes a file from another of the same name; None if there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_ctime_ns


class Registration:
    """Serves the plugin and keeps it registered."""

    def __init__(self, folders: Folders, service: PluginService, poll_seconds: float = 0.5) -> None:
        self.registered = False
        self.count = 0
        self._folders = folders
        self._service = service
        self._poll_seconds = poll_seconds

    @property
    def followed(self) -> bool:
        """Return whether the kubelet it is registered with follows its devices; until then that one refuses containers."""
        return self.registered and self._service.open_streams > 0

    async def run(self) -> None:
        """Serve and stay registered until cancelled."""
        while True:
            self.registered = False
            if not self._folders.device_plugins.is_dir():
                await asyncio.sleep(self._poll_seconds)
                continue
            server = await self._serve()
            try:
                await self._stay_registered()
                _log.warning("own socket is gone, serving again socket=%s", self._folders.own_socket)
            finally:
                # The old server must end before the new one binds, because it unlinks its socket by name.
                self.registered = False
                await server.stop(_STOP_SECONDS)

    async def _serve(self) -> grpc.aio.Server:
        socket = self._folders.own_socket
        with contextlib.suppress(FileNotFoundError):
            socket.unlink()
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((device_plugin_handlers(self._service),))
        server.add_insecure_port(f"unix://{socket}")
        await server.start()
        return server

    async def _stay_registered(self) -> None:
        """Register with each new kubelet. Return when the own socket is gone."""
        own = identity(self._folders.own_socket)
        known: _Identity | None = None
        pause = self._poll_seconds
        without_stream = 0.0
        while own is not None and identity(self._folders.own_socket) == own:
            kubelet = identity(self._folders.kubelet_socket)
            without_stream = 0.0 if self._service.open_streams else without_stream + pause
            self.registered = kubelet is not None and kubelet == known and without_stream < _STREAM_SECONDS
            pause = self._poll_seconds
            if kubelet is not None and not self.registered:
                try:
                    await self._register()
                    known, without_stream = kubelet, 0.0
                except grpc.aio.AioRpcError as error:
                    _log.warning(
                        "registration failed code=%s error=%r",
                        error.code().name,
                        error.details(),
                    )
                    known = None
                    pause = min(4 * self._poll_seconds, _MAX_PAUSE_SECONDS)
            await asyncio.sleep(pause)

    async def _register(self) -> None:
        request = RegisterRequest(
            version=API_VERSION,
            endpoint=self._folders.own_socket.name,
            resource_name=names.GPU_PERCENT,
            options=OPTIONS,
        )
        async with grpc.aio.insecure_channel(f"unix://{self._folders.kubelet_socket}") as channel:
            await register(channel)(request, timeout=_REGISTER_SECONDS)
        self.registered = True
        self.count += 1
        _log.info("registered with the kubelet resource=%s", names.GPU_PERCENT)
