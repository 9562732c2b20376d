"""When the plugin is ready: once the cluster has heard of the node's shares."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from laneway.api.inventory import Inventory
from laneway.api.names import GPU_PERCENT
from laneway.device_plugin.advertisement import Advertisement, offered_percent
from laneway.device_plugin.latest_value import LatestValue
from laneway.device_plugin.node_pods import APIUnavailableError
from laneway.device_plugin.registration import Registration

from tests.support.device_plugin.builders import gpu, inventory


@dataclass
class Node:
    """The Node as the API server has it; None while that does not answer."""

    offers: str | None = None
    looks: int = 0
    looked: asyncio.Event = field(default_factory=asyncio.Event)

    async def read_node(self, timeout_seconds: float) -> dict[str, Any]:
        self.looks += 1
        self.looked.set()
        if self.offers is None:
            raise APIUnavailableError("reading node n1 failed: nobody there")
        return {"status": {"allocatable": {"cpu": "2", GPU_PERCENT: self.offers}}}

    async def another_look(self) -> None:
        """Wait until the Node has been read and the result has been processed."""
        for _ in range(2):
            self.looked.clear()
            async with asyncio.timeout(60):
                await self.looked.wait()


def advertisement(node: Node | None, *, count: int = 1) -> tuple[Advertisement, SimpleNamespace]:
    known: LatestValue[Inventory] = LatestValue()
    known.publish(inventory(gpu(0, offer=200), gpu(1, offer=200, healthy=False)))
    registration = SimpleNamespace(followed=True, count=count)
    return Advertisement(node, known, cast("Registration", registration), poll_seconds=0.001), registration


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - a property does not notify of changes
            await asyncio.sleep(0.001)


async def test_where_shares_are_withheld_it_waits_for_none() -> None:
    node = Node("0")
    known: LatestValue[Inventory] = LatestValue()
    known.publish(inventory(gpu(0)).model_copy(update={"withheld_reason": "another device plugin"}))
    registration = SimpleNamespace(followed=True, count=1)
    advertised = Advertisement(node, known, cast("Registration", registration), poll_seconds=0.001)
    running = asyncio.create_task(advertised.run())
    await until(lambda: advertised.ready)
    running.cancel()


async def test_it_is_ready_once_the_node_offers_all_healthy_shares() -> None:
    node = Node()
    advertised, registration = advertisement(node)
    running = asyncio.create_task(advertised.run())

    await node.another_look()
    assert not advertised.ready
    assert "nobody there" in advertised.problem
    node.offers = "0"
    await node.another_look()
    assert not advertised.ready
    assert "offers 0 of laneway.dev/gpu-percent so far, not 200" in advertised.problem
    node.offers = "200"
    await until(lambda: advertised.ready)
    assert advertised.problem == ""

    # Another kubelet registers again, and the Node is looked at again.
    node.offers = "0"
    registration.count = 2
    assert not advertised.ready
    node.offers = "200"
    await until(lambda: advertised.ready)
    registration.followed = False
    assert not advertised.ready
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_without_an_api_server_the_kubelet_is_enough() -> None:
    advertised, registration = advertisement(None)

    assert advertised.ready
    registration.followed = False
    assert not advertised.ready


@pytest.mark.parametrize(
    ("node", "percent"),
    [({}, 0), ({"status": {}}, 0), ({"status": {"allocatable": {GPU_PERCENT: "1k"}}}, 1000)],
)
def test_what_a_node_offers(node: dict[str, Any], percent: int) -> None:
    assert offered_percent(node) == percent


def test_a_node_without_gpus_is_ready_and_says_why() -> None:
    """Otherwise `helm install --wait` would wait for it for ever."""
    known: LatestValue[Inventory] = LatestValue()
    registration = SimpleNamespace(followed=False, count=0)
    advertised = Advertisement(Node(), known, cast("Registration", registration))
    assert not advertised.ready

    known.publish(Inventory(node="n1", gpus=(), no_gpus_reason="the driver lists no GPU"))
    assert advertised.ready
    assert advertised.no_gpus_reason == "no GPUs: the driver lists no GPU"

    known.publish(inventory(gpu(0)))
    assert not advertised.ready
    assert advertised.no_gpus_reason == ""
