"""Orders in files: the shell's, and the agent's copy of the cluster's."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from laneway.api.orders import Order, PodOrder
from laneway.node_agent.clock import SystemClock
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.orders.cluster_watch import ClusterOrdersWatch
from laneway.node_agent.orders.file_watch import OrdersFileWatch
from laneway.node_agent.orders.orders_file import BadOrdersError, FileOrder, edited, read_orders, write_orders


def an_order(**fields: Any) -> FileOrder:
    return FileOrder(**{"namespace": "default", "pod": "a", "order": Order.PAUSE, **fields})


def test_written_orders_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "orders.json"
    orders = (an_order(podUID="uid-a", reason="a test"), an_order(pod="b", order=Order.OFFLOAD))
    write_orders(path, orders)
    assert read_orders(path) == orders
    assert read_orders(tmp_path / "none.json") == ()


@pytest.mark.parametrize(
    ("order", "uid", "name", "concerns"),
    [
        (an_order(podUID="uid-a"), "uid-a", "a", True),
        (an_order(podUID="uid-a"), "uid-later", "a", False),
        (an_order(podUID="uid-a"), "", "a", True),
        (an_order(), "uid-a", "a", True),
        (an_order(), "uid-a", "b", False),
        (FileOrder(podUID="uid-a", order=Order.PAUSE), "", "a", False),
    ],
)
def test_an_order_concerns_a_pod_by_uid_or_name(
    order: FileOrder, uid: str, name: str, concerns: bool
) -> None:
    assert order.concerns(uid, "default", name) is concerns


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "Invalid JSON"),
        ('{"version": 2}', "version"),
        ('{"orders": [{"order": "Pause"}]}', "which pod? write podUID, or namespace and pod"),
        (
            '{"orders": [{"podUID": "a", "order": "Stop"}]}',
            "orders.0.order: Input should be 'Pause' or 'Offload'",
        ),
        (
            json.dumps({"orders": [{"podUID": f"a{n}", "order": "Pause"} for n in range(1025)]}),
            "at most 1024",
        ),
    ],
)
def test_an_invalid_orders_file_is_reported_with_the_field(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "orders.json"
    path.write_text(text)
    with pytest.raises(BadOrdersError, match=r"orders\.json") as raised:
        read_orders(path)
    assert says in str(raised.value)


def test_orders_that_could_not_be_read_for_a_moment_are_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, clock = tmp_path / "orders.json", SystemClock()
    received: list[tuple[FileOrder, ...]] = []
    watch = OrdersFileWatch(path, received.append, EventLoop(clock), clock)
    write_orders(path, [an_order()])
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refused)
        for _ in range(2):
            watch.read_if_changed()
    assert received == []
    assert caplog.text.count("Too many open files") == 1
    for _ in range(2):
        watch.read_if_changed()
    assert received == [(an_order(),)]


def refused(path: Path, mode: str) -> None:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))


def test_concurrent_edits_lose_no_orders(tmp_path: Path) -> None:
    path = tmp_path / "orders.json"

    def add(number: int) -> None:
        with edited(path) as orders:
            orders.append(an_order(pod=f"pod-{number}"))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {order.pod for order in read_orders(path)} == {f"pod-{number}" for number in range(20)}


def watch(kept: Path, changed: Callable[[tuple[PodOrder, ...]], None], loop: EventLoop) -> ClusterOrdersWatch:
    class Nobody:
        def specs(self) -> Any:
            raise AssertionError("not asked in this test")

    return ClusterOrdersWatch(Nobody(), kept, changed, loop)


def test_cluster_orders_are_passed_on_when_they_change_and_survive_the_agent(tmp_path: Path) -> None:
    kept, loop = tmp_path / "kept.json", EventLoop(SystemClock())
    changed: list[tuple[PodOrder, ...]] = []
    following = watch(kept, changed.append, loop)
    spec = {"orders": [{"podUID": "uid-a", "order": "Pause", "reason": "preempted"}]}
    following.apply_spec({})
    following.apply_spec(spec)
    following.apply_spec(spec)
    following.apply_spec({"orders": [{"podUID": "uid-a", "order": "Explode"}]})
    following.apply_spec(
        {"orders": [{"podUID": "uid-a", "order": "Explode"}, {"podUID": "uid-b", "order": "Pause"}]}
    )
    loop.post(loop.stop)
    loop.run()
    loop.close()
    first = PodOrder(podUID="uid-a", order=Order.PAUSE, reason="preempted")
    second = PodOrder(podUID="uid-b", order=Order.PAUSE)
    assert changed == [(), (first,), (second, first)], (
        "an order that cannot be read leaves the others, and the pod's last one"
    )
    assert {order.pod_uid for order in read_orders(kept)} == {"uid-a", "uid-b"}
