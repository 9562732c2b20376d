"""Asks the kubelet's PodResources API which container holds which ids.

These records are authoritative; the plugin keeps none of its own that could differ.

Two properties of the kubelet (1.36) shape this module. It answers at most about 100 calls a second. So calls
that arrive while one is in progress share the next one, which starts after they arrived. And listing makes it
drop the ids of ended pods, including ids that it is passing to `Allocate` and has not booked yet. So nothing
is listed from within `Allocate`, and `GetPreferredAllocation` offers no held id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio
from laneway.api import names
from laneway.device_plugin.grpc_methods import list_pod_resources
from laneway.device_plugin.pod_info import PodKey
from laneway.device_plugin.proto.podresources_pb2 import ListPodResourcesRequest, ListPodResourcesResponse

_CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class KubeletUnavailableError(Exception):
    """The kubelet does not answer; the text names the request and the answer."""


@dataclass(frozen=True)
class Holder:
    """A container that holds ids."""

    namespace: str
    pod: str
    container: str
    ids: frozenset[str]


@dataclass(frozen=True)
class Listing:
    """One answer: the ids of each container (possibly none) of each pod that the kubelet runs or admits."""

    containers: Mapping[PodKey, Mapping[str, frozenset[str]]]

    @property
    def holders(self) -> tuple[Holder, ...]:
        """The containers that hold ids."""
        return tuple(
            Holder(namespace, pod, container, ids)
            for (namespace, pod), containers in self.containers.items()
            for container, ids in containers.items()
            if ids
        )

    @property
    def held(self) -> frozenset[str]:
        """All ids that are held."""
        return frozenset().union(*(holder.ids for holder in self.holders))

    def holder_of(self, ids: Iterable[str]) -> Holder | None:
        """Return the container that holds exactly these ids."""
        wanted = frozenset(ids)
        return next((holder for holder in self.holders if holder.ids == wanted), None)

    def overlapping(self, ids: Iterable[str]) -> Holder | None:
        """Return a container that holds some of these ids: an init container shares its ids with later
        containers."""
        wanted = frozenset(ids)
        return next((holder for holder in self.holders if holder.ids & wanted), None)


def listing_of(answer: ListPodResourcesResponse) -> Listing:
    """Convert the kubelet's answer, with Laneway's resource only."""
    return Listing(
        {
            (pod.namespace, pod.name): {
                container.name: frozenset(
                    identifier
                    for devices in container.devices
                    if devices.resource_name == names.GPU_PERCENT
                    for identifier in devices.device_ids
                )
                for container in pod.containers
            }
            for pod in answer.pod_resources
        }
    )


class PodResourcesClient:
    """Queries the kubelet with as few calls as freshness allows."""

    def __init__(self, socket: Path, timeout_seconds: float = 5.0) -> None:
        self._socket = socket
        self._timeout_seconds = timeout_seconds
        self._channel = grpc.aio.insecure_channel(f"unix://{socket}", options=_CHANNEL_OPTIONS)
        self._running: asyncio.Task[Listing] | None = None
        self._next: asyncio.Task[Listing] | None = None

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close(grace=None)

    async def list(self) -> Listing:
        """Return the holders, as of after this call began.

        Raises:
            KubeletUnavailableError: no answer within the time limit.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._running))
        # Shielded: cancelling one caller must not cancel the others' answer.
        return await asyncio.shield(self._next)

    async def _after(self, before: asyncio.Task[Listing] | None) -> Listing:
        if before is not None:
            await asyncio.wait([before])
        self._running, self._next = self._next, None
        return await self._ask()

    async def _ask(self) -> Listing:
        call = list_pod_resources(self._channel)
        deadline = asyncio.get_running_loop().time() + self._timeout_seconds
        while True:
            left = deadline - asyncio.get_running_loop().time()
            try:
                return listing_of(
                    await call(ListPodResourcesRequest(), timeout=max(0.05, left), wait_for_ready=True)
                )
            except grpc.aio.AioRpcError as error:
                if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED or left < 0.1:
                    raise KubeletUnavailableError(
                        f"the kubelet does not list its pods' devices at {self._socket}: "
                        f"{error.code().name}: {error.details()}"
                    ) from error
            await asyncio.sleep(0.05)
