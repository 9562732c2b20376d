"""What the writer makes of the API server's answers."""

from __future__ import annotations

from typing import Any, cast

import pytest
from laneway.operator.apiserver import ApiServer, Raw
from laneway.operator.cache import ClusterCache
from laneway.operator.metrics import Metrics
from laneway.operator.writer import Writer

from tests.unit.operator.builders import a_job, a_pod


class _Answering:
    """An API server with one answer."""

    def __init__(self, answer: Raw) -> None:
        self._answer = answer

    async def request(self, method: str, path: str, **request: Any) -> Raw:
        return self._answer


@pytest.mark.parametrize(
    ("change", "there"),
    [
        ({"kind": "Pod"}, True),
        ({"kind": "Pod", "resourceVersion": None}, False),
        ({"kind": "Status"}, False),
    ],
)
async def test_a_deleted_pod_is_known_until_the_answer_says_that_it_is_gone(
    change: dict[str, str | None], there: bool
) -> None:
    """Two deletions at the same time: the answer to the later one is a pod without a version."""
    job = a_job().placed("n1").record
    raw = a_pod(job).running().raw
    cache = ClusterCache(lambda: 0.0)
    cache.pods.observe(raw)
    metadata = {**raw["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "2"}
    if "resourceVersion" in change:
        del metadata["resourceVersion"]
    answer = {**raw, "kind": change["kind"], "metadata": metadata}
    writer = Writer(cast(ApiServer, _Answering(answer)), cache, Metrics(), lambda: 10.0)
    await writer.delete_pod(a_pod(job).running().record)
    assert [pod.deleting for pod in cache.pods.records()] == ([True] if there else [])
