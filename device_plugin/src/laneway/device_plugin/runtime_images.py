"""What an image sets in its environment, asked of the node's container runtime over the socket that the kubelet uses.

Kubernetes shows nobody an image's configuration, and what the device plugin sets in a container's environment replaces what
the image set. Only `ImageStatus` is called, which changes nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import grpc
import grpc.aio
from laneway.device_plugin.methods import image_status
from laneway.device_plugin.proto.cri_pb2 import ImageSpec, ImageStatusRequest, ImageStatusResponse

_CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
_INFO_KEY = "info"


class RuntimeSilentError(Exception):
    """The container runtime does not say it; the text says what it was asked and what came back."""


class RuntimeImages:
    """Asks the container runtime about images that the node has."""

    def __init__(self, socket: Path, connect_seconds: float = 2.0, answer_seconds: float = 15.0) -> None:
        """A container that starts waits no longer than that.

        Args:
            socket: the runtime's.
            connect_seconds: how long a socket at which nobody listens is tried.
            answer_seconds: how long an answer may take. The kubelet is going to ask the same runtime to make the container, so a slow one
                holds it up in any case; together with all else that `PreStartContainer` waits for it stays below the kubelet's 30 s.
        """
        self._socket = socket
        self._connect_seconds = connect_seconds
        self._answer_seconds = answer_seconds
        self._channel = grpc.aio.insecure_channel(f"unix://{socket}", options=_CHANNEL_OPTIONS)

    async def close(self) -> None:
        """End the connection."""
        await self._channel.close(grace=None)

    async def pythonpath(self, image: str) -> str:
        """Return what an image sets PYTHONPATH to; empty where it sets none.

        Args:
            image: as a pod spells it: with a tag, a digest, both or neither.

        Raises:
            RuntimeSilentError: there is no runtime at the socket, it has no such image, or it does not say.
        """
        if not self._socket.exists():
            raise RuntimeSilentError(f"there is no container runtime at {self._socket}")
        answer = await self._status(ImageStatusRequest(image=ImageSpec(image=image), verbose=True))
        if not answer.HasField("image"):
            raise RuntimeSilentError(f"the container runtime at {self._socket} has no image {image!r}")
        try:
            return pythonpath_of(answer.info)
        except ValueError as error:
            raise RuntimeSilentError(
                f"the container runtime at {self._socket} does not tell the environment of images: {error}"
            ) from error

    async def _status(self, request: ImageStatusRequest) -> ImageStatusResponse:
        call = image_status(self._channel)
        clock = asyncio.get_running_loop().time
        began = clock()
        while True:
            try:
                return await call(request, timeout=self._answer_seconds)
            except grpc.aio.AioRpcError as error:
                # A runtime that has just been started anew is unavailable until the next attempt to connect.
                away = error.code() == grpc.StatusCode.UNAVAILABLE
                if not away or clock() - began >= self._connect_seconds:
                    raise RuntimeSilentError(
                        f"the container runtime at {self._socket} does not tell of images: "
                        f"{error.code().name}: {error.details()}"
                    ) from error
            await asyncio.sleep(0.1)


def pythonpath_of(info: Mapping[str, str]) -> str:
    """Return the PYTHONPATH in a runtime's verbose words on an image, as containerd and CRI-O write them; empty where there is none.

    Raises:
        ValueError: they are written otherwise.
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
    # Where a variable is there twice, the last one counts, as in a process's environment by the OCI runtime.
    settings = (str(each).partition("=") for each in reversed(variables))
    return next((value for name, _, value in settings if name == "PYTHONPATH"), "")
