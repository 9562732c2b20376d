"""What a pod requests, by kube-scheduler's rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.api.names import GPU_PERCENT
from laneway.api.pod_requests import amounts, pod_requests, quantities, total

AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "example.com/nic"]), st.integers(1, 2**40))


def asks(cpu: str = "", always: bool = False, **resources: dict[str, str]) -> dict[str, Any]:
    """A container; ``always``: a sidecar."""
    if cpu:
        resources = {"requests": {"cpu": cpu}}
    return {"resources": resources, **({"restartPolicy": "Always"} if always else {})}


@pytest.mark.parametrize(
    ("story", "spec", "cpu"),
    [
        ("containers run together", {"containers": [asks("1"), asks("250m")]}, 1250),
        ("fractions round up", {"containers": [asks("0.0001")]}, 1),
        (
            "init containers run one after the other, before",
            {"initContainers": [asks("3"), asks("2")], "containers": [asks("1")]},
            3000,
        ),
        (
            "a sidecar runs beside the containers",
            {"initContainers": [asks("2", always=True)], "containers": [asks("1")]},
            3000,
        ),
        (
            "an init container runs beside the sidecars before it",
            {"initContainers": [asks("2", always=True), asks("4")], "containers": [asks("1")]},
            6000,
        ),
        (
            "and not beside those after it",
            {"initContainers": [asks("4"), asks("2", always=True)], "containers": [asks("1")]},
            4000,
        ),
        ("overhead comes on top", {"containers": [asks("1")], "overhead": {"cpu": "100m"}}, 1100),
        ("a limit without a request is one", {"containers": [asks(limits={"cpu": "2"})]}, 2000),
        (
            "a request counts in place of the limit",
            {"containers": [asks(limits={"cpu": "2"}, requests={"cpu": "1"})]},
            1000,
        ),
        (
            "the pod's own request counts in place of its containers'",
            {"containers": [asks("1"), asks("1")], "resources": {"requests": {"cpu": "5"}}},
            5000,
        ),
        (
            "the pod's own limit does where no container requests anything",
            {"containers": [{}], "resources": {"limits": {"cpu": "3"}}},
            3000,
        ),
        (
            "else its containers' requests do",
            {"containers": [asks("1")], "resources": {"limits": {"cpu": "3"}}},
            1000,
        ),
    ],
)
def test_cpus_are_counted_as_kube_scheduler_counts_them(story: str, spec: dict[str, Any], cpu: int) -> None:
    assert pod_requests(spec) == {"cpu": cpu, "pods": 1}, story


def test_each_resource_has_its_own_maximum() -> None:
    first = asks(requests={"memory": "4Gi", "cpu": "1"})
    runs = asks(requests={"memory": "1Gi", "cpu": "2", "example.com/nic": "1", GPU_PERCENT: "50"})
    assert pod_requests({"initContainers": [first], "containers": [runs]}) == {
        "cpu": 2000,
        "memory": 4 * 2**30,
        "example.com/nic": 1,
        "pods": 1,
    }


def test_an_amount_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="'many' is not a quantity"):
        pod_requests({"containers": [asks("many")]})


@given(st.lists(AMOUNTS))
def test_quantities_say_the_same_as_amounts(of: list[dict[str, int]]) -> None:
    added = total(of)
    assert amounts(quantities(added)) == added
