"""The gRPC methods of the kubelet and the container runtime, bound to the messages in `proto/`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

import grpc
import grpc.aio
from laneway.device_plugin.proto import cri_pb2 as cri
from laneway.device_plugin.proto import deviceplugin_pb2 as plugin
from laneway.device_plugin.proto import podresources_pb2 as resources

Context = grpc.aio.ServicerContext[Any, Any]

API_VERSION = "v1beta1"


class DevicePluginServer(Protocol):
    """The calls that a device plugin answers."""

    async def get_options(self, request: plugin.Empty, context: Context) -> plugin.DevicePluginOptions: ...

    def list_and_watch(
        self, request: plugin.Empty, context: Context
    ) -> AsyncIterator[plugin.ListAndWatchResponse]: ...

    async def get_preferred_allocation(
        self, request: plugin.PreferredAllocationRequest, context: Context
    ) -> plugin.PreferredAllocationResponse: ...

    async def allocate(
        self, request: plugin.AllocateRequest, context: Context
    ) -> plugin.AllocateResponse: ...

    async def pre_start_container(
        self, request: plugin.PreStartContainerRequest, context: Context
    ) -> plugin.PreStartContainerResponse: ...


def _unary(
    behaviour: Callable[[Any, Context], Awaitable[Any]], request: Any, answer: Any
) -> grpc.RpcMethodHandler[Any, Any]:
    return grpc.unary_unary_rpc_method_handler(behaviour, request.FromString, answer.SerializeToString)


def device_plugin_handlers(server: DevicePluginServer) -> grpc.GenericRpcHandler[Any, Any]:
    """Return the DevicePlugin service for a gRPC server."""
    methods = {
        "GetDevicePluginOptions": _unary(server.get_options, plugin.Empty, plugin.DevicePluginOptions),
        "ListAndWatch": grpc.unary_stream_rpc_method_handler(
            server.list_and_watch, plugin.Empty.FromString, plugin.ListAndWatchResponse.SerializeToString
        ),
        "GetPreferredAllocation": _unary(
            server.get_preferred_allocation,
            plugin.PreferredAllocationRequest,
            plugin.PreferredAllocationResponse,
        ),
        "Allocate": _unary(server.allocate, plugin.AllocateRequest, plugin.AllocateResponse),
        "PreStartContainer": _unary(
            server.pre_start_container, plugin.PreStartContainerRequest, plugin.PreStartContainerResponse
        ),
    }
    return grpc.method_handlers_generic_handler(f"{API_VERSION}.DevicePlugin", methods)


def register(
    channel: grpc.aio.Channel,
) -> grpc.aio.UnaryUnaryMultiCallable[plugin.RegisterRequest, plugin.Empty]:
    """Return the kubelet's Register call."""
    return channel.unary_unary(
        f"/{API_VERSION}.Registration/Register",
        plugin.RegisterRequest.SerializeToString,
        plugin.Empty.FromString,
    )


def list_pod_resources(
    channel: grpc.aio.Channel,
) -> grpc.aio.UnaryUnaryMultiCallable[resources.ListPodResourcesRequest, resources.ListPodResourcesResponse]:
    """Return the kubelet's List call."""
    return channel.unary_unary(
        "/v1.PodResourcesLister/List",
        resources.ListPodResourcesRequest.SerializeToString,
        resources.ListPodResourcesResponse.FromString,
    )


def image_status(
    channel: grpc.aio.Channel,
) -> grpc.aio.UnaryUnaryMultiCallable[cri.ImageStatusRequest, cri.ImageStatusResponse]:
    """Return the container runtime's ImageStatus call."""
    return channel.unary_unary(
        "/runtime.v1.ImageService/ImageStatus",
        cri.ImageStatusRequest.SerializeToString,
        cri.ImageStatusResponse.FromString,
    )
