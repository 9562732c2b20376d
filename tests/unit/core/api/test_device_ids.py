"""Device ids: the ids that the kubelet picks decide the GPU."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.api import device_ids, quota

UUID = "GPU-8f4c0c0e-5a1d-4a7e-9d46-0a5b7a1c2d3e"


def test_an_id_names_its_gpu_and_is_short_enough_for_the_kubelet() -> None:
    identifier = device_ids.device_id(UUID, 999)
    assert device_ids.gpu_of(identifier) == UUID
    assert len(identifier) <= 63


@pytest.mark.parametrize("identifier", ["", UUID, f"{UUID}::", "::7", f"{UUID}::x"])
def test_a_foreign_id_is_refused(identifier: str) -> None:
    with pytest.raises(ValueError, match="expected '<gpu uuid>::<slot>'"):
        device_ids.gpu_of(identifier)


@given(st.sets(st.integers(0, 99), min_size=1), st.sets(st.integers(0, 99), min_size=1), st.randoms())
def test_ids_give_shares_and_a_key_that_knows_no_order(a: set[int], b: set[int], random: object) -> None:
    ids = [device_ids.device_id("A", slot) for slot in a] + [device_ids.device_id("B", slot) for slot in b]
    assert device_ids.shares_of(ids) == {"A": len(a), "B": len(b)}
    shuffled = list(ids)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert device_ids.container_key(shuffled) == device_ids.container_key(ids)


def test_containers_with_different_ids_have_different_keys() -> None:
    keys = {device_ids.container_key([device_ids.device_id(UUID, slot)]) for slot in range(100)}
    assert len(keys) == 100


@given(st.integers(1, 100), st.integers(1, 2**40))
def test_a_quota_needs_no_more_than_the_share_it_came_from(share: int, allocatable: int) -> None:
    quota_bytes = quota.quota_bytes(share, allocatable)
    assert quota_bytes <= allocatable
    if quota_bytes > 0:
        assert quota.percent_for(quota_bytes, allocatable) <= share


@given(st.integers(1, 2**40), st.integers(1, 2**40))
def test_the_share_for_an_amount_of_memory_holds_it_or_says_it_cannot(memory: int, allocatable: int) -> None:
    percent = quota.percent_for(memory, allocatable)
    if percent <= 100:
        assert quota.quota_bytes(percent, allocatable) >= memory
    else:
        assert memory > allocatable
