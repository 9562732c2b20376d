"""Reads an image's environment from the node's container runtime, over its CRI socket.

Kubernetes does not expose an image's configuration, and a variable set by the device plugin replaces the
image's. Only `ImageStatus` is called, which changes nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import grpc
import grpc.aio
from laneway.device_plugin.grpc_methods import image_status
from laneway.device_plugin.proto.cri_pb2 import ImageSpec, ImageStatusRequest, ImageStatusResponse

_CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
_INFO_KEY = "info"


class RuntimeQueryError(Exception):
    """The container runtime does not answer; the text names the request and the answer."""


class RuntimeImages:
    """Queries the container runtime about images of the node."""

    def __init__(self, socket: Path, connect_seconds: float = 2.0, answer_seconds: float = 15.0) -> None:
        """A starting container waits no longer than these limits.

        Args:
            socket: the runtime's socket.
            connect_seconds: how long connecting is tried if nobody listens.
            answer_seconds: the time limit for an answer. A slow runtime delays the container anyway, because
                it creates it. With everything else in `PreStartContainer` it stays below the kubelet's 30 s.
        """
        self._socket = socket
        self._connect_seconds = connect_seconds
        self._answer_seconds = answer_seconds
        self._channel = grpc.aio.insecure_channel(f"unix://{socket}", options=_CHANNEL_OPTIONS)

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close(grace=None)

    async def pythonpath(self, image: str) -> str:
        """Return an image's PYTHONPATH; empty if it sets none.

        Args:
            image: as a pod spells it, with a tag, a digest, both or neither.

        Raises:
            RuntimeQueryError: there is no runtime at the socket, it lacks the image, or it does not report
                its environment.
        """
        if not self._socket.exists():
            raise RuntimeQueryError(f"there is no container runtime at {self._socket}")
        answer = await self._status(ImageStatusRequest(image=ImageSpec(image=image), verbose=True))
        if not answer.HasField("image"):
            raise RuntimeQueryError(f"the container runtime at {self._socket} has no image {image!r}")
        try:
            return pythonpath_of(answer.info)
        except ValueError as error:
            raise RuntimeQueryError(
                f"the container runtime at {self._socket} does not report images' environments: {error}"
            ) from error

    async def _status(self, request: ImageStatusRequest) -> ImageStatusResponse:
        call = image_status(self._channel)
        clock = asyncio.get_running_loop().time
        began = clock()
        while True:
            try:
                return await call(request, timeout=self._answer_seconds)
            except grpc.aio.AioRpcError as error:
                # A restarted runtime is unavailable until the next attempt to connect.
                away = error.code() == grpc.StatusCode.UNAVAILABLE
                if not away or clock() - began >= self._connect_seconds:
                    raise RuntimeQueryError(
                        f"the container runtime at {self._socket} does not answer about images: "
                        f"{error.code().name}: {error.details()}"
                    ) from error
            await asyncio.sleep(0.1)


def pythonpath_of(info: Mapping[str, str]) -> str:
    """Return the PYTHONPATH in a runtime's verbose image info, as containerd and CRI-O write it; empty if
    there is none.

    Raises:
        ValueError: the info has another format.
    """
    if _INFO_KEY not in info:
        raise ValueError(f"its answer has no {_INFO_KEY!r}, only {sorted(info)}")
    found = json.loads(info[_INFO_KEY])
    for part in ("imageSpec", "config"):
        found = found.get(part) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        raise ValueError(f"its {_INFO_KEY!r} has no imageSpec.config")
    variables = found.get("Env") or []
    if not isinstance(variables, list):
        raise ValueError(f"its {_INFO_KEY!r} has an Env that is no list")
    # If a variable appears twice, the last one counts, as in the OCI runtime.
    settings = (str(each).partition("=") for each in reversed(variables))
    return next((value for name, _, value in settings if name == "PYTHONPATH"), "")
