"""Which GPU a job without Kubernetes gets its share of."""

from __future__ import annotations

import pytest
from laneway.api.device_ids import device_id
from laneway.api.inventory import InventoryGPU
from laneway.node_agent.jobs.errors import JobError
from laneway.node_agent.jobs.free_slots import choose_ids


def gpu(index: int, **fields: object) -> InventoryGPU:
    sizes = {"memory_bytes": 1 << 30, "reserve_bytes": 0, "allocatable_percent": 100}
    return InventoryGPU.model_validate(
        {"uuid": f"GPU-{index}", "index": index, "model": "m", **sizes, **fields}
    )


def ids(index: int, *slots: int) -> tuple[str, ...]:
    return tuple(device_id(f"GPU-{index}", slot) for slot in slots)


def test_best_fit_takes_the_fullest_gpu_and_its_lowest_free_slots() -> None:
    held = {*ids(1, *range(60)), *ids(2, *range(90))}
    assert choose_ids([gpu(0), gpu(1), gpu(2)], held, 40) == ids(1, *range(60, 100))
    assert choose_ids([gpu(0), gpu(1), gpu(2)], held, 10) == ids(2, *range(90, 100))
    assert choose_ids([gpu(0), gpu(1), gpu(2)], held, 41) == ids(0, *range(41))
    assert choose_ids([gpu(0)], ids(0, 1), 2) == ids(0, 0, 2)


@pytest.mark.parametrize("wanted", ["1", "GPU-1"])
def test_a_gpu_may_be_named(wanted: str) -> None:
    assert choose_ids([gpu(0), gpu(1)], ids(0, *range(90)), 5, wanted) == ids(1, *range(5))


@pytest.mark.parametrize(
    ("percent", "wanted", "says"),
    [
        (50, "", "GPU 0 has 40 % free; GPU 1 is unhealthy (XID 79)"),
        (10, "1", "no GPU has 10 % free: GPU 1 is unhealthy (XID 79)"),
        (10, "7", "there is no GPU 7 here: write one of 0 (GPU-0), 1 (GPU-1)"),
    ],
)
def test_an_impossible_share_is_refused_with_the_reason(percent: int, wanted: str, says: str) -> None:
    gpus = [gpu(0), gpu(1, healthy=False, health_reason="XID 79")]
    with pytest.raises(JobError) as refused:
        choose_ids(gpus, set(ids(0, *range(60))), percent, wanted)
    assert says in str(refused.value)
