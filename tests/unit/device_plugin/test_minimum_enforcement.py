"""Whether GPUs have the enforcement level that a pod demands."""

from __future__ import annotations

import pytest
from laneway.device_plugin.minimum_enforcement import (
    enforcement_shortfall,
    missing_interposer,
    unknown_pod_shortfall,
)

from tests.support.device_plugin.builders import gpu, ids, inventory

NODE = inventory(
    gpu(0, enforcement="Watchdog", enforcement_reason="no MPS: it has none"),
    gpu(1, enforcement="MPS"),
    gpu(2),
)


@pytest.mark.parametrize("minimum", ["", "Cooperative", "Watchdog"])
def test_a_container_with_the_demanded_level_may_start(minimum: str) -> None:
    assert enforcement_shortfall(minimum, [*ids(0, (0, 1)), *ids(1, (0,))], NODE) == ""


def test_the_weakest_of_its_gpus_decides() -> None:
    said = enforcement_shortfall("MPS", [*ids(1, (0,)), *ids(0, (0,))], NODE)
    assert said == (
        "the container must not start on GPU GPU-0 of node n1: it demands the enforcement 'MPS', and 'Watchdog' is in force on its "
        "GPU: no MPS: it has none. Lower the annotation laneway.dev/minimum-enforcement, or send the pod to a node whose "
        "GPUNode reports that level"
    )


def test_the_level_of_other_gpus_does_not_matter() -> None:
    assert enforcement_shortfall("MPS", ids(1, (0,)), NODE) == ""


def test_an_unknown_level_is_refused_on_every_gpu() -> None:
    assert enforcement_shortfall("strict", ids(1, (0,)), NODE) == (
        "the container must not start on GPU GPU-1 of node n1: it demands the enforcement 'strict', which is no level: write one of "
        "Cooperative, Watchdog, Interposer, MPS. Correct the annotation laneway.dev/minimum-enforcement"
    )


def test_mps_holds_no_container_with_a_smaller_quota_than_its_limit() -> None:
    """The control daemon's limit is the largest quota on the GPU."""
    mebibyte = 1 << 20
    half = gpu(
        0, enforcement="MPS", memory_bytes=1000 * mebibyte, reserve_bytes=0, mps_limit_bytes=500 * mebibyte
    )
    node = inventory(half)
    assert enforcement_shortfall("MPS", ids(0, range(50)), node) == ""
    assert enforcement_shortfall("Watchdog", ids(0, range(20)), node) == ""
    assert unknown_pod_shortfall("ns/p", ids(0, range(50)), node) == ""
    said = enforcement_shortfall("MPS", ids(0, range(20)), node)
    assert "MPS limits each process to 500.0 MiB, the largest quota on its GPU; its own is 200.0 MiB" in said
    assert unknown_pod_shortfall("ns/p", ids(0, range(20)), node) != ""


def test_a_container_of_an_unknown_pod_starts_only_where_no_level_could_lack() -> None:
    assert unknown_pod_shortfall("ns/p", ids(1, (0,)), NODE) == ""
    for held in (ids(0, (0,)), ids(2, (0,)), [*ids(1, (0,)), *ids(2, (0,))]):
        assert unknown_pod_shortfall("ns/p", held, NODE) != ""
    said = unknown_pod_shortfall("ns/p", ids(0, (0,)), NODE)
    assert said == (
        "pod ns/p is not known: the API server did not answer, or has no such pod. It may demand more than 'Watchdog', which is in "
        "force on GPU GPU-0 of node n1 (annotation laneway.dev/minimum-enforcement). The container starts once the API server answers"
    )


@pytest.mark.parametrize("minimum", ["", "Watchdog"])
def test_a_container_that_demands_no_interposer_starts_without_it(minimum: str) -> None:
    interposed = inventory(gpu(0, enforcement="Interposer", interposer=True))
    assert missing_interposer(minimum, ids(0, (0,)), interposed) == ""


def test_a_container_that_demands_the_interposer_and_was_allocated_without_it_does_not_start() -> None:
    interposed = inventory(
        gpu(0, enforcement="Interposer", interposer=True), gpu(1, enforcement="MPS", interposer=True)
    )
    assert missing_interposer("Interposer", ids(1, (0,)), interposed) == "", "MPS holds it as well"
    assert missing_interposer("Interposer", ids(0, (0,)), interposed) == (
        "the container was allocated without the memory interposer, which GPU GPU-0 of node n1 has by now, and its pod "
        "demands the enforcement 'Interposer'. Delete the pod, so that another one is allocated with it"
    )
