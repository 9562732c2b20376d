"""The kubelet's side of the device plugin protocol: a real gRPC server and client, and the device manager's booking.

It does what the kubelet of 1.36 does, in its order: it wipes the sockets' folder when it starts, takes a registration,
follows the stream of devices, admits one pod at a time (the pod is listed before it holds ids; then
GetPreferredAllocation, Allocate, booking), and calls PreStartContainer before each start.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from laneway.api.names import GPU_PERCENT
from laneway.device_plugin.proto import deviceplugin_pb2 as plugin
from laneway.device_plugin.proto import podresources_pb2 as resources

CHECKPOINT = "kubelet_internal_checkpoint"


@dataclass
class Booking:
    """A pod of the kubelet: ids by container, in the pod's order."""

    namespace: str
    name: str
    ids: dict[str, tuple[str, ...]] = field(default_factory=dict)


class KubeletSide:
    """One life of a kubelet; for a restart make another with the bookings of the first."""

    def __init__(
        self, device_plugins: Path, pod_resources_socket: Path, pods: Sequence[Booking] = ()
    ) -> None:
        self.pods = list(pods)
        self.registrations: list[plugin.RegisterRequest] = []
        self.healthy: set[str] = set()
        self.unhealthy: set[str] = set()
        self.numa: dict[str, list[int]] = {}
        self.changed = threading.Condition()
        self.found_when_allocated: list[str] = []
        """What was in the folder of the container that was allocated last, before the ids were booked."""
        self._folder = device_plugins
        self._pod_resources_socket = pod_resources_socket
        self._channel: grpc.Channel | None = None
        self._servers: list[grpc.Server] = []

    def __enter__(self) -> KubeletSide:
        self._folder.mkdir(parents=True, exist_ok=True)
        for file in self._folder.iterdir():
            if file.name != CHECKPOINT:
                file.unlink()
        self._serve(self._pod_resources_socket, "v1.PodResourcesLister", "List", self._list, _LIST)
        self._serve(
            self._folder / "kubelet.sock", "v1beta1.Registration", "Register", self._register, _REGISTER
        )
        return self

    def __exit__(self, *error: object) -> None:
        if self._channel is not None:
            self._channel.close()
        for server in self._servers:
            server.stop(None).wait()

    def admit(
        self,
        name: str,
        size: int,
        *,
        container: str = "trainer",
        namespace: str = "default",
        offered: Sequence[str] | None = None,
    ) -> tuple[str, ...]:
        """Admit a container: choose, allocate and book its ids. An error of the plugin is raised as it came.

        ``offered`` are the ids on offer, else all that are healthy and not booked.
        """
        booking = next((pod for pod in self.pods if (pod.namespace, pod.name) == (namespace, name)), None)
        if booking is None:
            booking = Booking(namespace, name)
            self.pods.append(booking)
        booking.ids.setdefault(container, ())
        try:
            free = sorted(
                self.healthy - {one for pod in self.pods for ids in pod.ids.values() for one in ids}
            )
            assert len(free) >= size, "kube-scheduler would not have sent the pod here"
            offer = free if offered is None else offered
            wanted = plugin.ContainerPreferredAllocationRequest(
                available_deviceIDs=offer, allocation_size=size
            )
            answer = self._call(
                "GetPreferredAllocation", plugin.PreferredAllocationRequest(container_requests=[wanted])
            )
            chosen = tuple(answer.container_responses[0].deviceIDs)
            assert len(chosen) == size
            self.allocated = self.allocate(chosen)
        except BaseException:
            self.pods.remove(booking)
            raise
        booking.ids[container] = chosen
        return chosen

    def admit_blindly(self, name: str, ids: Sequence[str]) -> None:
        """Ask which ids would be best and then order others."""
        self.pods.append(Booking("default", name, {"trainer": ()}))
        try:
            wanted = plugin.ContainerPreferredAllocationRequest(
                available_deviceIDs=list(ids), allocation_size=len(ids)
            )
            request = plugin.PreferredAllocationRequest(container_requests=[wanted])
            with contextlib.suppress(grpc.RpcError):
                self._call("GetPreferredAllocation", request)
            self.allocate(ids)
        finally:
            self.end(name)

    def allocate(self, ids: Sequence[str]) -> plugin.ContainerAllocateResponse:
        """Call Allocate for one container."""
        request = plugin.AllocateRequest(
            container_requests=[plugin.ContainerAllocateRequest(devices_ids=ids)]
        )
        answer: plugin.ContainerAllocateResponse = self._call("Allocate", request).container_responses[0]
        self.found_when_allocated = os.listdir(answer.mounts[0].host_path)
        return answer

    def start(self, ids: Sequence[str]) -> None:
        """Call PreStartContainer for one container, as the kubelet does with its limit of 30 s."""
        self._call("PreStartContainer", plugin.PreStartContainerRequest(devices_ids=ids), timeout=30)

    def end(self, name: str) -> None:
        """The pod ended: it and its ids are gone from the records."""
        self.pods = [pod for pod in self.pods if pod.name != name]

    def options(self) -> plugin.DevicePluginOptions:
        """Ask for the plugin's options."""
        return self._call("GetDevicePluginOptions", plugin.Empty())

    def wait_for_registrations(self, number: int) -> None:
        """Wait until the plugin has registered this often."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.registrations) >= number, 60), self.registrations

    def wait_for_devices(self, healthy: int, unhealthy: int = 0, timeout_seconds: float = 60) -> None:
        """Wait until the plugin has advertised this many devices."""
        with self.changed:
            done = self.changed.wait_for(
                lambda: (len(self.healthy), len(self.unhealthy)) == (healthy, unhealthy), timeout_seconds
            )
        assert done, (
            f"{len(self.healthy)} healthy and {len(self.unhealthy)} unhealthy devices after the deadline"
        )

    def drop_stream(self) -> None:
        """Close the connection to the plugin, as the kubelet does when it gives an endpoint up."""
        assert self._channel is not None
        self._channel.close()

    def _call(self, method: str, request: Any, timeout: float = 60) -> Any:
        assert self._channel is not None, "no plugin has registered"
        answers = {
            "GetPreferredAllocation": plugin.PreferredAllocationResponse,
            "Allocate": plugin.AllocateResponse,
            "PreStartContainer": plugin.PreStartContainerResponse,
            "GetDevicePluginOptions": plugin.DevicePluginOptions,
        }
        call = self._channel.unary_unary(
            f"/v1beta1.DevicePlugin/{method}", type(request).SerializeToString, answers[method].FromString
        )
        return call(request, timeout=timeout)

    def _register(
        self, request: plugin.RegisterRequest, context: grpc.ServicerContext[Any, Any]
    ) -> plugin.Empty:
        if self._channel is not None:
            self._channel.close()
        self._channel = grpc.insecure_channel(f"unix://{self._folder / request.endpoint}")
        with self.changed:
            self.registrations.append(request)
            # As in the kubelet, devices of the endpoint before count only when the new one shows them.
            self.unhealthy |= self.healthy
            self.healthy = set()
            self.changed.notify_all()
        # Only now may devices arrive: who waits for them counts the registrations next.
        threading.Thread(target=self._follow, args=(self._channel,), daemon=True).start()
        return plugin.Empty()

    def _follow(self, channel: grpc.Channel) -> None:
        stream = channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch",
            plugin.Empty.SerializeToString,
            plugin.ListAndWatchResponse.FromString,
        )
        try:
            for answer in stream(plugin.Empty(), wait_for_ready=True):
                with self.changed:
                    self.healthy = {device.ID for device in answer.devices if device.health == "Healthy"}
                    self.unhealthy = {device.ID for device in answer.devices} - self.healthy
                    self.numa = {d.ID: [node.ID for node in d.topology.nodes] for d in answer.devices}
                    self.changed.notify_all()
        except (grpc.RpcError, ValueError):
            pass
        with self.changed:
            if channel is self._channel:
                self.unhealthy |= self.healthy
                self.healthy = set()
                self.changed.notify_all()

    def _list(
        self, request: resources.ListPodResourcesRequest, context: grpc.ServicerContext[Any, Any]
    ) -> resources.ListPodResourcesResponse:
        return resources.ListPodResourcesResponse(
            pod_resources=[
                resources.PodResources(
                    name=pod.name,
                    namespace=pod.namespace,
                    containers=[
                        resources.ContainerResources(
                            name=container,
                            devices=[
                                # The kubelet makes one entry an id.
                                resources.ContainerDevices(resource_name=GPU_PERCENT, device_ids=[one])
                                for one in ids
                            ],
                        )
                        for container, ids in pod.ids.items()
                    ],
                )
                for pod in list(self.pods)
            ]
        )

    def _serve(
        self, socket: Path, service: str, method: str, behaviour: Any, messages: tuple[Any, Any]
    ) -> None:
        socket.parent.mkdir(parents=True, exist_ok=True)
        socket.unlink(missing_ok=True)
        server = grpc.server(ThreadPoolExecutor(4))
        request, answer = messages
        handler = grpc.unary_unary_rpc_method_handler(behaviour, request.FromString, answer.SerializeToString)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
        server.add_insecure_port(f"unix://{socket}")
        server.start()
        self._servers.append(server)


_LIST = (resources.ListPodResourcesRequest, resources.ListPodResourcesResponse)
_REGISTER = (plugin.RegisterRequest, plugin.Empty)
