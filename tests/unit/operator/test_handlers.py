"""What kopf's thread hands over to the operator's loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from laneway.operator.state.cache import ClusterCache
from laneway.operator.state.resources import NODES, TRAINING_JOBS, Resource
from laneway.operator.watch import handlers
from laneway.operator.watch.handlers import HandOver, build_settings

from tests.unit.operator.builders import a_job


def _version(raw: dict[str, Any], version: int) -> dict[str, Any]:
    return {**raw, "metadata": {**raw["metadata"], "resourceVersion": str(version)}}


class Engine:
    def __init__(self) -> None:
        self.heard: list[tuple[Resource, str]] = []
        self.lists = 0

    def hear(self, resource: Resource, uid: str) -> None:
        self.heard.append((resource, uid))

    def list_soon(self) -> None:
        self.lists += 1


@pytest.mark.parametrize(
    ("kinds", "left", "relisted"),
    [
        pytest.param(["ADDED", "MODIFIED"], 1, False, id="events"),
        pytest.param(["ADDED", "DELETED"], 0, False, id="it is gone"),
        pytest.param([None, None], 1, True, id="a list, which does not say what is gone"),
    ],
)
async def test_events_reach_the_cache_in_order_from_another_thread(
    kinds: list[str | None], left: int, relisted: bool
) -> None:
    cache, engine, raw = ClusterCache(lambda: 0.0), Engine(), a_job("a").raw
    hand_over = HandOver(asyncio.get_running_loop(), cache, engine.hear, engine.list_soon)

    def in_kopfs_thread() -> None:
        for number, kind in enumerate(kinds):
            changed = {**raw, "spec": {**raw["spec"], "workers": 1 + number}}
            changed["metadata"] = {**raw["metadata"], "generation": 1 + number}
            hand_over.put(TRAINING_JOBS, kind, _version(changed, 1 + number))

    await asyncio.to_thread(in_kopfs_thread)
    await asyncio.sleep(0)
    assert len(cache.jobs.records()) == left
    assert engine.heard == [(TRAINING_JOBS, "uid-a")] * len(kinds)
    assert bool(engine.lists) == relisted


async def test_an_event_that_changes_nothing_wakes_nobody() -> None:
    cache, engine = ClusterCache(lambda: 0.0), Engine()
    hand_over = HandOver(asyncio.get_running_loop(), cache, engine.hear, engine.list_soon)
    node = {"metadata": {"name": "n1", "uid": "u"}, "status": {}}
    for version in (1, 2):
        hand_over.put(NODES, "MODIFIED", _version(node, version))
    await asyncio.sleep(0)
    assert engine.heard == [(NODES, "u")]


def test_kopf_writes_nothing_and_its_workers_hold_nobody_up() -> None:
    settings = build_settings()
    assert not settings.posting.enabled
    assert settings.scanning.disabled
    assert settings.queueing.worker_limit is None
    assert 0 < settings.queueing.idle_timeout <= 0.1, "0 spins"


async def test_a_kopf_that_lost_a_watch_and_hangs_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    started = []

    async def operator(*, stop_flag: threading.Event, **_: Any) -> None:
        started.append(stop_flag)
        watches = asyncio.create_task(asyncio.sleep(0.05), name="multidimensional multitasker")
        await watches
        await asyncio.Event().wait()

    monkeypatch.setattr(handlers.kopf, "operator", operator)
    monkeypatch.setattr(handlers, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(handlers, "_END_SECONDS", 0.01)
    assert await handlers._run_kopf(handlers.kopf.OperatorRegistry(), ()) == "kopf ended"
    assert started[0].is_set()
    assert "is left behind" in caplog.text
