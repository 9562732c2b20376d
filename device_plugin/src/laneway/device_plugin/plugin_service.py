"""What the kubelet's device manager is answered. gRPC in, gRPC out; each decision is made in a module of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import NoReturn

import grpc
from laneway.api.device_ids import container_key
from laneway.api.inventory import Inventory
from laneway.device_plugin.admission import Admission
from laneway.device_plugin.allocation import RefusedError, Terms, grant, response
from laneway.device_plugin.container_folders import ContainerFolders
from laneway.device_plugin.demand import why_not_as_demanded
from laneway.device_plugin.devices import devices_of
from laneway.device_plugin.folders import Folders
from laneway.device_plugin.image_paths import ImagePaths
from laneway.device_plugin.kubelet_records import Holder, KubeletAwayError, KubeletRecords
from laneway.device_plugin.latest import Latest
from laneway.device_plugin.methods import Context
from laneway.device_plugin.metrics import Metrics
from laneway.device_plugin.preference import Ask, NothingFitsError
from laneway.device_plugin.proto import deviceplugin_pb2 as plugin
from laneway.device_plugin.share_manager import ShareManager

_log = logging.getLogger(__name__)

_HOLDER_SECONDS = 5.0
_POLL_SECONDS = 0.05


class PluginService:
    """The DevicePlugin service (`methods.DevicePluginServer`)."""

    def __init__(
        self,
        folders: Folders,
        containers: ContainerFolders,
        terms: Terms,
        inventory: Latest[Inventory],
        admission: Admission,
        records: KubeletRecords,
        shares: ShareManager,
        image_paths: ImagePaths,
        metrics: Metrics,
        socket_seconds: float = 5.0,
    ) -> None:
        """``socket_seconds``: how long a container waits for the agent to open its socket."""
        self.open_streams = 0
        self._folders = folders
        self._containers = containers
        self._terms = terms
        self._inventory = inventory
        self._admission = admission
        self._records = records
        self._shares = shares
        self._image_paths = image_paths
        self._metrics = metrics
        self._socket_seconds = socket_seconds

    async def get_options(self, request: plugin.Empty, context: Context) -> plugin.DevicePluginOptions:
        """Say which optional calls are wanted: both."""
        return OPTIONS

    async def list_and_watch(
        self, request: plugin.Empty, context: Context
    ) -> AsyncIterator[plugin.ListAndWatchResponse]:
        """Send all devices now and after each change of the inventory."""
        self.open_streams += 1
        version = 0
        try:
            while True:
                version, inventory = await self._inventory.newer_than(version)
                yield plugin.ListAndWatchResponse(devices=devices_of(inventory))
        finally:
            self.open_streams -= 1

    async def get_preferred_allocation(
        self, request: plugin.PreferredAllocationRequest, context: Context
    ) -> plugin.PreferredAllocationResponse:
        """Choose ids for a container that is being admitted."""
        inventory = await self._known_inventory(context)
        answers = []
        for wanted in request.container_requests:
            ask = Ask(
                wanted.allocation_size,
                tuple(wanted.available_deviceIDs),
                tuple(wanted.must_include_deviceIDs),
            )
            try:
                chosen = await self._admission.choose(ask, inventory)
            except (NothingFitsError, ValueError) as error:
                self._metrics.refused()
                await _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, str(error))
            answers.append(plugin.ContainerPreferredAllocationResponse(deviceIDs=chosen.ids))
        return plugin.PreferredAllocationResponse(container_responses=answers)

    async def allocate(self, request: plugin.AllocateRequest, context: Context) -> plugin.AllocateResponse:
        """Check the ids of a container and prepare its folder. Asks nobody anything: see `kubelet_records`."""
        inventory = await self._known_inventory(context)
        held = self._admission.held_at_last_choice()
        answers = []
        for wanted in request.container_requests:
            try:
                granted = grant(wanted.devices_ids, inventory, held)
            except RefusedError as error:
                self._metrics.refused()
                await _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, str(error))
            self._containers.make_fresh(wanted.devices_ids)
            answers.append(response(granted, self._folders, self._terms))
            self._metrics.granted()
            uuids = ", ".join(gpu.uuid for gpu in granted.gpus)
            _log.info("container %s gets %d percent of %s", granted.key, granted.percent, uuids)
        return plugin.AllocateResponse(container_responses=answers)

    async def pre_start_container(
        self, request: plugin.PreStartContainerRequest, context: Context
    ) -> plugin.PreStartContainerResponse:
        """Write down which container starts with these ids and what its image says, and wait for the agent to open its door.

        Where its GPUs are not held as its pod demands it is refused; the kubelet asks again, ever later, as long as the
        pod is there.
        """
        ids = tuple(request.devices_ids)
        key = container_key(ids)
        lives = self._containers.lives()
        holder = await self._holder(ids)
        if isinstance(holder, str):
            await _refuse(context, grpc.StatusCode.UNAVAILABLE, holder)
        self._containers.ensure(key)
        # An init container's are not: the kubelet lends it ids of the containers after it, and lists only these.
        are_its_own = holder.ids == frozenset(ids)
        if are_its_own:
            await self._shares.write_down(holder, lives, starts=True)
        pod = await self._shares.pod_of(holder, ask=not are_its_own)
        demanded = "" if pod is None else pod.minimum_enforcement
        lacks = why_not_as_demanded(demanded, ids, await self._known_inventory(context))
        if lacks:
            self._metrics.refused()
            await _refuse(context, grpc.StatusCode.FAILED_PRECONDITION, lacks)
        image_path = self._image_paths.write_down(ids, holder, pod, lives.get(key, 0))
        if not are_its_own:
            _log.warning("an init container of %s/%s starts without a session", holder.namespace, holder.pod)
            await image_path
            return plugin.PreStartContainerResponse()
        door_opens, _ = await asyncio.gather(self._door_opens(key), image_path)
        if not door_opens:
            _log.warning(
                "container %s starts without the agent: no socket after %.1f s", key, self._socket_seconds
            )
        return plugin.PreStartContainerResponse()

    async def _holder(self, ids: Sequence[str]) -> Holder | str:
        """Return who holds the ids; a sentence when the kubelet does not say it in time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _HOLDER_SECONDS
        while True:
            try:
                listing = await self._records.list()
            except KubeletAwayError as error:
                trouble = str(error)
            else:
                holder = listing.holder_of(ids) or listing.overlapping(ids)
                if holder is not None:
                    return holder
                trouble = (
                    f"the kubelet's PodResources name no pod that holds {sorted(ids)[0]} and {len(ids) - 1} more; "
                    "where only an init container asks for a share, ask for it in a main container too"
                )
            if loop.time() >= deadline:
                return trouble
            await asyncio.sleep(4 * _POLL_SECONDS)

    async def _door_opens(self, key: str) -> bool:
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
            await _refuse(
                context, grpc.StatusCode.UNAVAILABLE, "the node agent has not said yet which GPUs there are"
            )
        return inventory


OPTIONS = plugin.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
"""Said when asked and when registering."""


async def _refuse(context: Context, code: grpc.StatusCode, sentence: str) -> NoReturn:
    _log.warning("refused: %s", sentence)
    await context.abort(code, sentence)
    raise AssertionError("abort() returns only by raising")
