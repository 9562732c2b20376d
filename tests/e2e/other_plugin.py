"""Another device plugin, run in a pod (`python -c`): it offers the GPUs that its environment names to the kubelet as `RESOURCE`.

It does what NVIDIA's does for whole GPUs: a device's id is the GPU's UUID, and a container learns its own by NVIDIA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import grpc.aio
from laneway.device_plugin.grpc_methods import API_VERSION, Context, device_plugin_handlers, register
from laneway.device_plugin.proto import deviceplugin_pb2 as plugin

FOLDER = Path("/var/lib/kubelet/device-plugins")
SOCKET = FOLDER / "other-plugin.sock"


class OtherPlugin:
    """Offers whole GPUs."""

    def __init__(self, uuids: list[str]) -> None:
        self._uuids = uuids

    async def get_options(self, request: plugin.Empty, context: Context) -> plugin.DevicePluginOptions:
        return plugin.DevicePluginOptions()

    async def list_and_watch(
        self, request: plugin.Empty, context: Context
    ) -> AsyncIterator[plugin.ListAndWatchResponse]:
        devices = [plugin.Device(ID=uuid, health="Healthy") for uuid in self._uuids]
        yield plugin.ListAndWatchResponse(devices=devices)
        await asyncio.Event().wait()

    async def get_preferred_allocation(
        self, request: plugin.PreferredAllocationRequest, context: Context
    ) -> plugin.PreferredAllocationResponse:
        return plugin.PreferredAllocationResponse()

    async def allocate(self, request: plugin.AllocateRequest, context: Context) -> plugin.AllocateResponse:
        return plugin.AllocateResponse(
            container_responses=[
                plugin.ContainerAllocateResponse(
                    envs={"NVIDIA_VISIBLE_DEVICES": ",".join(wanted.devices_ids)}
                )
                for wanted in request.container_requests
            ]
        )

    async def pre_start_container(
        self, request: plugin.PreStartContainerRequest, context: Context
    ) -> plugin.PreStartContainerResponse:
        return plugin.PreStartContainerResponse()


async def main() -> None:
    """Serves, registers once, and goes on until the pod is deleted."""
    SOCKET.unlink(missing_ok=True)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((device_plugin_handlers(OtherPlugin(os.environ["GPUS"].split(","))),))
    server.add_insecure_port(f"unix://{SOCKET}")
    await server.start()
    request = plugin.RegisterRequest(
        version=API_VERSION, endpoint=SOCKET.name, resource_name=os.environ["RESOURCE"]
    )
    async with grpc.aio.insecure_channel(f"unix://{FOLDER / 'kubelet.sock'}") as channel:
        await register(channel)(request, timeout=10)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main())
