"""Other pods that wait for CPUs."""

from __future__ import annotations

from typing import Any, cast

import pytest
from laneway.operator.pacing import WAITING_PODS_SECONDS
from laneway.operator.watch.apiserver import ApiServer, Raw
from laneway.operator.watch.waiting_pods import WaitingPods


def a_pod(
    cpu: str,
    status: str = "False",
    message: str = "0/2 nodes are available: 2 Insufficient cpu.",
    **spec: Any,
) -> Raw:
    return {
        "spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}], **spec},
        "status": {"conditions": [{"type": "PodScheduled", "status": status, "message": message}]},
    }


class _Api:
    """An API server with these pods in each of two namespaces."""

    def __init__(self, *pods: Raw) -> None:
        self.pods, self.asked = list(pods), list[str]()

    def scopes(self, resource: object) -> tuple[str, ...]:
        return ("a", "b")

    async def request(self, method: str, path: str, *, query: dict[str, str], accept: str) -> Raw:
        if "continue" not in query:
            self.asked.append(path)
        assert query["labelSelector"] == "!laneway.dev/job"
        if "continue" in query or not self.pods:
            return {"items": self.pods[1:]}
        return {"items": self.pods[:1], "metadata": {"continue": "1"}}


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], ()),
        ([a_pod("2"), a_pod("500m"), a_pod("2")], (2000, 500)),
        ([a_pod("1", status="True")], ()),
        ([a_pod("1", message="0/2 nodes are available: 2 Insufficient memory.")], ()),
        ([{"spec": {"containers": []}, "status": {}}], ()),
    ],
)
async def test_only_those_count_for_which_kube_scheduler_finds_no_cpus(
    pods: list[Raw], expected: tuple[int, ...]
) -> None:
    api = _Api(*pods)
    waiting = WaitingPods(cast(ApiServer, api), lambda: 0.0)
    assert await waiting.look() == bool(expected)
    assert tuple(pod.cpu_millis for pod in waiting.pods) == expected
    assert api.asked == ["/api/v1/namespaces/a/pods", "/api/v1/namespaces/b/pods"]
    assert await waiting.look() is False


async def test_they_are_looked_for_now_and_then() -> None:
    now: list[float] = [100.0]
    waiting = WaitingPods(cast(Any, _Api(a_pod("1"))), lambda: now[0])
    assert waiting.is_due()
    await waiting.look()
    assert not waiting.is_due()
    now[0] += WAITING_PODS_SECONDS
    assert waiting.is_due()
    waiting.forget()
    assert waiting.pods == ()


async def test_pods_that_choose_other_nodes_are_of_another_kind() -> None:
    here, there = {"zone": "a"}, {"zone": "b"}
    api = _Api(a_pod("1", nodeSelector=here), a_pod("1", nodeSelector=there), a_pod("1", nodeSelector=here))
    waiting = WaitingPods(cast(ApiServer, api), lambda: 0.0)
    await waiting.look()
    assert [pod.spec for pod in waiting.pods] == [{"nodeSelector": here}, {"nodeSelector": there}]
