"""A delay in the plugin affects only its own container, and late results are dropped.

The plugin's service runs here in the test's own process, behind gRPC as on a node, so that the test decides when the agent
opens a socket and when the API server answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from laneway.api.device_ids import container_key
from laneway.api.inventory import Inventory
from laneway.device_plugin.admission import Admission
from laneway.device_plugin.allocation import AllocationSettings
from laneway.device_plugin.container_folders import ContainerFolders
from laneway.device_plugin.folders import Folders
from laneway.device_plugin.grpc_methods import device_plugin_handlers
from laneway.device_plugin.image_paths import ImagePaths
from laneway.device_plugin.latest_value import LatestValue
from laneway.device_plugin.metrics import Metrics
from laneway.device_plugin.node_pods import NodePods
from laneway.device_plugin.plugin_service import PluginService
from laneway.device_plugin.pod_resources import PodResourcesClient
from laneway.device_plugin.proto import deviceplugin_pb2 as plugin
from laneway.device_plugin.share_manager import ShareManager, Timing

from tests.integration.device_plugin.kubelet_side import Booking, KubeletSide
from tests.integration.device_plugin.plugin_process import PluginNode
from tests.support.device_plugin.builders import gpu, ids, inventory, raw_pod

FOR_EVER = 3600.0
DEADLINE_SECONDS = 30


@dataclass
class SlowApi:
    """An API server that answers about a pod when the test lets it; about others at once."""

    slow: str = ""
    unknown: str = ""
    """The name of a pod that does not exist."""
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    answer: asyncio.Event = field(default_factory=asyncio.Event)

    async def list_pods(self) -> tuple[list[dict[str, Any]], str]:
        return [], "1"

    async def watch_pods(self, version: str, seconds: int) -> AsyncIterator[dict[str, Any]]:
        for event in ():
            yield event

    async def read_pod(self, namespace: str, name: str, timeout_seconds: float) -> dict[str, Any] | None:
        if name == self.slow:
            self.asked.set()
            await self.answer.wait()
        return None if name == self.unknown else raw_pod(name)


@dataclass
class InProcess:
    """The plugin's service, called as the kubelet calls it."""

    kubelet: KubeletSide
    folders: ContainerFolders
    shares: ShareManager
    channel: grpc.aio.Channel
    listeners: contextlib.ExitStack
    running: set[str]
    """The uids of the pods that have processes."""

    async def allocate(self, pod: str, taken: tuple[str, ...]) -> None:
        """Allocate, and book as the kubelet does."""
        container = plugin.ContainerAllocateRequest(devices_ids=taken)
        await self._call(
            "Allocate", plugin.AllocateRequest(container_requests=[container]), plugin.AllocateResponse
        )
        self.kubelet.pods.append(Booking("default", pod, {"trainer": taken}))

    async def start(self, taken: tuple[str, ...]) -> None:
        """PreStartContainer."""
        request = plugin.PreStartContainerRequest(devices_ids=taken)
        await self._call("PreStartContainer", request, plugin.PreStartContainerResponse)

    async def _call(self, method: str, request: Any, answer: Any) -> None:
        call = self.channel.unary_unary(
            f"/v1beta1.DevicePlugin/{method}", type(request).SerializeToString, answer.FromString
        )
        await call(request, timeout=DEADLINE_SECONDS)

    def open_socket(self, taken: tuple[str, ...]) -> None:
        """Listen in the container's folder, as the agent does."""
        listener = self.listeners.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        listener.bind(str(self.folders.socket(container_key(taken))))
        listener.listen()

    def named(self, taken: tuple[str, ...]) -> str:
        """The pod in the record of these ids; empty where there is none."""
        record = self.folders.record(container_key(taken))
        return "" if record is None else record.pod


@pytest.fixture
def api() -> SlowApi:
    return SlowApi()


@pytest.fixture
def place(node: PluginNode) -> Iterator[tuple[Path, KubeletSide]]:
    with KubeletSide(node.device_plugins, node.pod_resources_socket) as side:
        yield node.root, side


@pytest.fixture
async def running(place: tuple[Path, KubeletSide], api: SlowApi) -> AsyncIterator[InProcess]:
    root, kubelet = place
    containers = ContainerFolders(root / "containers")
    records = PodResourcesClient(root / "pod-resources" / "kubelet.sock")
    pods = NodePods(api)
    running: set[str] = set()
    known: LatestValue[Inventory] = LatestValue()
    known.publish(inventory(gpu(0), gpu(1)))
    shares = ShareManager(
        containers, records, pods, known, Timing(pod_read=FOR_EVER, unnamed=FOR_EVER), lambda: running
    )
    service = PluginService(
        Folders(containers=root / "containers"),
        containers,
        AllocationSettings(),
        known,
        Admission(records, pods),
        records,
        shares,
        ImagePaths(containers, None),
        Metrics("n1"),
        socket_seconds=FOR_EVER,
    )
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((device_plugin_handlers(service),))
    address = f"unix://{root}/p.sock"
    server.add_insecure_port(address)
    await server.start()
    with contextlib.ExitStack() as listeners:
        async with grpc.aio.insecure_channel(address) as channel:
            yield InProcess(kubelet, containers, shares, channel, listeners, running)
    await server.stop(None)
    await records.close()


async def until(condition: Any) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():  # noqa: ASYNC110 - files and properties do not notify of changes
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "other", [ids(1, range(50)), ids(0, range(50, 100))], ids=["another GPU", "the same GPU"]
)
async def test_waiting_for_the_agent_delays_no_other_container(
    running: InProcess, other: tuple[str, ...]
) -> None:
    first = ids(0, range(50))
    await running.allocate("first", first)
    held_up = asyncio.create_task(running.start(first))
    await until(lambda: running.named(first) == "first")

    await running.allocate("other", other)
    running.open_socket(other)
    await running.start(other)

    assert not held_up.done()
    assert running.named(other) == "other"
    running.open_socket(first)
    await held_up


async def test_waiting_for_the_api_server_delays_no_other_container(running: InProcess, api: SlowApi) -> None:
    first, other = ids(0, range(50)), ids(1, range(50))
    api.slow = "first"
    await running.allocate("first", first)
    running.open_socket(first)
    held_up = asyncio.create_task(running.start(first))
    await api.asked.wait()

    await running.allocate("other", other)
    running.open_socket(other)
    await running.start(other)

    assert not held_up.done()
    assert (running.named(first), running.named(other)) == ("", "other")
    api.answer.set()
    await held_up
    assert running.named(first) == "first"


async def test_a_late_record_is_not_written_for_the_next_container(running: InProcess, api: SlowApi) -> None:
    """The ids of a pod go to another pod while `reconcile` waits for the API server's answer about the first."""
    taken = ids(0, range(50))
    api.slow = "former"
    await running.allocate("former", taken)
    comparing = asyncio.create_task(running.shares.reconcile())
    await api.asked.wait()

    running.kubelet.end("former")
    await running.allocate("next", taken)
    running.open_socket(taken)
    await running.start(taken)
    api.answer.set()
    await comparing

    assert running.named(taken) == "next"


async def test_a_kubelet_that_lists_no_pods_yet_removes_no_folder(running: InProcess, api: SlowApi) -> None:
    """Right after its start the kubelet knows of no pod, while all of them run on."""
    alive, ended, unnamed = (ids(0, range(start, start + 20)) for start in (0, 20, 40))
    api.unknown = "unnamed"
    for pod, taken in (("lives", alive), ("ended", ended), ("unnamed", unnamed)):
        await running.allocate(pod, taken)
        running.open_socket(taken)
    for taken in (alive, ended):
        await running.start(taken)
    with pytest.raises(grpc.aio.AioRpcError, match="pod default/unnamed is not known"):
        await running.start(unnamed)
    running.running.add("uid-lives")

    listed, running.kubelet.pods = running.kubelet.pods, []
    await running.shares.reconcile()

    assert [running.named(taken) for taken in (alive, ended, unnamed)] == ["lives", "", "unnamed"]
    running.kubelet.pods = [pod for pod in listed if pod.name != "ended"]
    await running.shares.reconcile()
    assert [running.named(taken) for taken in (alive, ended, unnamed)] == ["lives", "", "unnamed"]
