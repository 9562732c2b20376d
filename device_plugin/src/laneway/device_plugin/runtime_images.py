"""What an image sets in its environment, asked of the node's container runtime over the socket that the kubelet uses.

Kubernetes shows nobody an image's configuration, and what the device plugin sets in a container's environment replaces what
the image set. Only `ImageStatus` is called, which changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import grpc
import grpc.aio
from laneway.device_plugin.methods import image_status
from laneway.device_plugin.proto.cri_pb2 import ImageSpec, ImageStatusRequest

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

    def __init__(self, socket: Path, timeout_seconds: float = 2.0) -> None:
        """``timeout_seconds``: a container that starts waits no longer than that for an answer."""
        self._socket = socket
        self._timeout_seconds = timeout_seconds
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
        request = ImageStatusRequest(image=ImageSpec(image=image), verbose=True)
        call = image_status(self._channel)
        try:
            answer = await call(request, timeout=self._timeout_seconds, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            raise RuntimeSilentError(
                f"the container runtime at {self._socket} does not tell of images: "
                f"{error.code().name}: {error.details()}"
            ) from error
        if not answer.HasField("image"):
            raise RuntimeSilentError(f"the container runtime at {self._socket} has no image {image!r}")
        try:
            return pythonpath_of(answer.info)
        except ValueError as error:
            raise RuntimeSilentError(
                f"the container runtime at {self._socket} does not tell the environment of images: {error}"
            ) from error


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
