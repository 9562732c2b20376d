"""The DevicePlugin gRPC service for the kubelet. It only translates; other modules decide."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import NoReturn

import grpc
from laneway.api.device_ids import container_key
from laneway.api.inventory import Inventory
from laneway.api.quotas_file import quotas_of
from laneway.device_plugin.admission import Admission
from laneway.device_plugin.allocation import AllocationSettings, RefusedError, grant, response
from laneway.device_plugin.container_folders import ContainerFolders
from laneway.device_plugin.devices import devices_of
from laneway.device_plugin.folders import Folders
from laneway.device_plugin.grpc_methods import Context
from laneway.device_plugin.image_paths import ImagePaths
from laneway.device_plugin.interposer_settings import has_interposer
from laneway.device_plugin.latest_value import LatestValue
from laneway.device_plugin.metrics import Metrics
from laneway.device_plugin.minimum_enforcement import (
    enforcement_shortfall,
    missing_interposer,
    unknown_pod_shortfall,
)
from laneway.device_plugin.pod_info import PodInfo
from laneway.device_plugin.pod_resources import Holder, KubeletUnavailableError, PodResourcesClient
from laneway.device_plugin.preferred_allocation import NoFitError, PreferredRequest
from laneway.device_plugin.proto import deviceplugin_pb2 as plugin
from laneway.device_plugin.share_manager import ShareManager

_log = logging.getLogger(__name__)

_HOLDER_SECONDS = 5.0
_HELD_SECONDS = 2.0
"""Between two looks at what containers hold, while GPUs are withheld."""
_POLL_SECONDS = 0.05


class PluginService:
    """The DevicePlugin service (`grpc_methods.DevicePluginServer`)."""

    def __init__(
        self,
        folders: Folders,
        containers: ContainerFolders,
        settings: AllocationSettings,
        inventory: LatestValue[Inventory],
        admission: Admission,
        records: PodResourcesClient,
        shares: ShareManager,
        image_paths: ImagePaths,
        metrics: Metrics,
        socket_seconds: float = 5.0,
    ) -> None:
        """``socket_seconds``: how long a container waits for the agent to open its socket."""
        self.open_streams = 0
        self._folders = folders
        self._containers = containers
        self._settings = settings
        self._inventory = inventory
        self._admission = admission
        self._records = records
        self._shares = shares
        self._image_paths = image_paths
        self._metrics = metrics
        self._socket_seconds = socket_seconds

    async def get_options(self, request: plugin.Empty, context: Context) -> plugin.DevicePluginOptions:
        """Return the options: both optional calls are used."""
        return OPTIONS

    async def list_and_watch(
        self, request: plugin.Empty, context: Context
    ) -> AsyncIterator[plugin.ListAndWatchResponse]:
        """Send all devices now and after each change: of the inventory, and where it withholds GPUs, of what containers hold."""
        self.open_streams += 1
        version, sent = 0, None
        try:
            while True:
                version, inventory = await self._changed_inventory(version)
                held = self._containers.held_ids() if inventory.withheld_reason else frozenset()
                if (version, held) != sent:
                    yield plugin.ListAndWatchResponse(devices=devices_of(inventory, held))
                sent = version, held
        finally:
            self.open_streams -= 1

    async def _changed_inventory(self, version: int) -> tuple[int, Inventory]:
        """Return an inventory newer than this version, or the same one after a while if it withholds GPUs."""
        known = self._inventory.value
        withholds = version > 0 and known is not None and known.withheld_reason
        try:
            async with asyncio.timeout(_HELD_SECONDS if withholds else None):
                return await self._inventory.wait_newer(version)
        except TimeoutError:
            assert known is not None, "nothing is withheld by an unknown inventory"
            return version, known

    async def get_preferred_allocation(
        self, request: plugin.PreferredAllocationRequest, context: Context
    ) -> plugin.PreferredAllocationResponse:
        """Choose ids for a container that is being admitted."""
        inventory = await self._known_inventory(context)
        answers = []
        for wanted in request.container_requests:
            wanted_ids = PreferredRequest(
                wanted.allocation_size,
                tuple(wanted.available_deviceIDs),
                tuple(wanted.must_include_deviceIDs),
            )
            try:
                chosen = await self._admission.choose(wanted_ids, inventory)
            except (NoFitError, ValueError) as error:
                self._metrics.refused()
                await _reject(context, grpc.StatusCode.FAILED_PRECONDITION, str(error))
            answers.append(plugin.ContainerPreferredAllocationResponse(deviceIDs=chosen.ids))
        return plugin.PreferredAllocationResponse(container_responses=answers)

    async def allocate(self, request: plugin.AllocateRequest, context: Context) -> plugin.AllocateResponse:
        """Check the ids of a container and create its folder. It makes no calls: see `pod_resources`."""
        inventory = await self._known_inventory(context)
        held = self._admission.take_held_ids()
        answers = []
        for wanted in request.container_requests:
            try:
                granted = grant(wanted.devices_ids, inventory, held)
            except RefusedError as error:
                self._metrics.refused()
                await _reject(context, grpc.StatusCode.FAILED_PRECONDITION, str(error))
            self._containers.create(wanted.devices_ids, interposer=has_interposer(granted.gpus))
            answers.append(response(granted, self._folders, self._settings))
            self._metrics.granted()
            uuids = ", ".join(gpu.uuid for gpu in granted.gpus)
            _log.info("allocated key=%s percent=%d gpus=%r", granted.key, granted.percent, uuids)
        return plugin.AllocateResponse(container_responses=answers)

    async def pre_start_container(
        self, request: plugin.PreStartContainerRequest, context: Context
    ) -> plugin.PreStartContainerResponse:
        """Record which container starts with these ids and what its image sets, and wait for the agent's
        socket.

        If its GPUs lack the enforcement that its pod demands, or may demand while it is unknown, the start is
        refused. The kubelet retries with back-off as long as the pod exists.
        """
        ids = tuple(request.devices_ids)
        key = container_key(ids)
        generations = self._containers.generations()
        holder = await self._holder(ids)
        if isinstance(holder, str):
            await _reject(context, grpc.StatusCode.UNAVAILABLE, holder)
        self._containers.ensure(key)
        # An init container holds none itself: the kubelet lends it ids of later containers and lists only
        # these.
        holds_ids_itself = holder.ids == frozenset(ids)
        if holds_ids_itself:
            await self._shares.record_holder(holder, generations, starts=True)
        pod = await self._shares.pod_of(holder, refresh=not holds_ids_itself)
        inventory = await self._known_inventory(context)
        self._containers.write_quotas(key, quotas_of(ids, inventory))
        shortfall_reason = self._shortfall(holder, pod, ids, inventory)
        if shortfall_reason:
            self._metrics.refused()
            await _reject(context, grpc.StatusCode.FAILED_PRECONDITION, shortfall_reason)
        image_path = self._image_paths.record(ids, holder, pod, generations.get(key, 0))
        if not holds_ids_itself:
            _log.warning("init container starts without a session pod=%s/%s", holder.namespace, holder.pod)
            await image_path
            return plugin.PreStartContainerResponse()
        socket_appears, _ = await asyncio.gather(self._await_socket(key), image_path)
        if not socket_appears:
            _log.warning(
                "container starts without the agent key=%s waited_seconds=%.1f", key, self._socket_seconds
            )
        return plugin.PreStartContainerResponse()

    def _shortfall(
        self, holder: Holder, pod: PodInfo | None, ids: Sequence[str], inventory: Inventory
    ) -> str:
        """Return why a container must not start, as a sentence; empty if it may."""
        demanded = self._shares.minimum_enforcement(holder, pod)
        if demanded is None:
            return unknown_pod_shortfall(f"{holder.namespace}/{holder.pod}", ids, inventory)
        shortfall_reason = enforcement_shortfall(demanded, ids, inventory)
        if shortfall_reason or self._containers.interposer(container_key(ids)) is not False:
            return shortfall_reason
        return missing_interposer(demanded, ids, inventory)

    async def _holder(self, ids: Sequence[str]) -> Holder | str:
        """Return the holder of the ids, or a sentence if the kubelet does not name one in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _HOLDER_SECONDS
        while True:
            try:
                listing = await self._records.list()
            except KubeletUnavailableError as error:
                problem = str(error)
            else:
                holder = listing.holder_of(ids) or listing.overlapping(ids)
                if holder is not None:
                    return holder
                problem = (
                    f"the kubelet lists no pod that holds {sorted(ids)[0]} and {len(ids) - 1} more; "
                    "if only an init container requests a share, request it in a main container too"
                )
            if loop.time() >= deadline:
                return problem
            await asyncio.sleep(4 * _POLL_SECONDS)

    async def _await_socket(self, key: str) -> bool:
        socket = self._containers.socket(key)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._socket_seconds
        while not socket.exists():
            if loop.time() >= deadline:
                return False
            await asyncio.sleep(_POLL_SECONDS)
        return True

    async def _known_inventory(self, context: Context) -> Inventory:
        inventory = self._inventory.value
        if inventory is None:
            await _reject(
                context, grpc.StatusCode.UNAVAILABLE, "the node agent has not written the GPU inventory yet"
            )
        return inventory


OPTIONS = plugin.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
"""Sent on request and when registering."""


async def _reject(context: Context, code: grpc.StatusCode, reason: str) -> NoReturn:
    _log.warning("request refused code=%s reason=%r", code.name, reason)
    await context.abort(code, reason)
    raise AssertionError("abort() returns only by raising")
