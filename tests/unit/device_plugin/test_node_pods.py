"""The view of the node's pods, while requests and events cross."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from laneway.device_plugin.node_pods import NodePods, WatchExpiredError


def a_pod(name: str, uid: str) -> dict[str, Any]:
    metadata = {"namespace": "ns", "name": name, "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": {"containers": []}}


class Source:
    """One pod; its events come when they are put into the queue."""

    def __init__(self, pod: dict[str, Any]) -> None:
        self.pod = pod
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.asked, self.answers = asyncio.Event(), asyncio.Event()

    async def list_pods(self) -> tuple[list[dict[str, Any]], str]:
        return [self.pod], "1"

    async def watch_pods(self, version: str, seconds: int) -> AsyncIterator[dict[str, Any]]:
        while True:
            yield await self.events.get()

    async def read_pod(self, namespace: str, name: str, timeout_seconds: float) -> dict[str, Any] | None:
        self.asked.set()
        await self.answers.wait()
        return self.pod


@pytest.mark.parametrize("other_uid", [False, True])
def test_an_answer_from_before_a_pods_deletion_does_not_bring_it_back(other_uid: bool) -> None:
    async def scenario() -> None:
        source, key = Source(a_pod("a", "uid-1")), ("ns", "a")
        applied = asyncio.Event()
        pods = NodePods(source, lambda pod: applied.set())
        watching = asyncio.create_task(pods.run())
        fetching = asyncio.create_task(pods.fetch(key, 1.0))
        await source.asked.wait()
        await applied.wait()
        applied.clear()
        source.events.put_nowait({"type": "DELETED", "object": source.pod})
        await applied.wait()
        assert key not in pods.pods
        if other_uid:
            source.pod = a_pod("a", "uid-2")
        source.answers.set()
        assert await fetching is not None
        assert [pod.uid for pod in pods.pods.values()] == (["uid-2"] if other_uid else [])
        watching.cancel()

    asyncio.run(scenario())


def test_an_api_server_whose_watches_expire_at_once_is_not_asked_without_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lists, pauses = 0, []

    class Expired(Source):
        async def list_pods(self) -> tuple[list[dict[str, Any]], str]:
            nonlocal lists
            lists += 1
            if lists > 5:
                raise asyncio.CancelledError
            return [], "1"

        async def watch_pods(self, version: str, seconds: int) -> AsyncIterator[dict[str, Any]]:
            raise WatchExpiredError
            yield {}

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("laneway.device_plugin.node_pods.asyncio.sleep", pause)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(NodePods(Expired(a_pod("a", "uid-1"))).run())
    assert len(pauses) == 5
    assert min(pauses) > 0.3
