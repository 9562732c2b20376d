"""Finding out for which pod the kubelet asks."""

from __future__ import annotations

import pytest
from laneway.api import names
from laneway.api.device_ids import shares_of
from laneway.device_plugin.admitting_pod import (
    find_candidates,
    free_ids,
    operator_choices,
    pending_pods,
    reserved_percent,
)

from tests.support.device_plugin.builders import gpu, ids, inventory, listing, pod, worker


def test_a_pod_listed_without_ids_is_being_admitted() -> None:
    admitted, admitting, plain = pod("a"), pod("b"), pod("web", asks={"c": 0})
    pods = {one.key: one for one in (admitted, admitting, plain)}
    records = listing({"a": {"trainer": ids(0, range(50))}, "b": {"trainer": ()}, "web": {"c": ()}})

    found = find_candidates(records, pods, 50)

    assert [one.name for one in found.pods] == ["b"]
    assert found.unknown == ()


def test_a_pod_that_the_kubelet_has_not_seen_is_not_asking() -> None:
    first, later = pod("a"), pod("b")

    found = find_candidates(listing({"a": {"trainer": ()}}), {one.key: one for one in (first, later)}, 50)

    assert [one.name for one in found.pods] == ["a"]


def test_only_the_size_that_is_asked_for_counts() -> None:
    small, large = pod("a", asks={"trainer": 20}), pod("b", asks={"trainer": 30})
    records = listing({"a": {"trainer": ()}, "b": {"trainer": ()}})

    assert [
        one.name for one in find_candidates(records, {one.key: one for one in (small, large)}, 30).pods
    ] == ["b"]


def test_the_second_container_of_a_pod_follows_the_first() -> None:
    both = pod("a", asks={"one": 20, "two": 30})
    records = listing({"a": {"one": ids(0, range(20)), "two": ()}})

    assert find_candidates(records, {both.key: both}, 20).pods == ()
    assert find_candidates(records, {both.key: both}, 30).pods == (both,)


@pytest.mark.parametrize("state", [{"phase": "Succeeded"}, {"deleting": True}, {"started": True}])
def test_an_earlier_pod_of_the_same_name_counts_as_unknown(state: dict[str, object]) -> None:
    former = pod("a", **state)

    found = find_candidates(listing({"a": {"trainer": ()}}), {former.key: former}, 50)

    assert found.pods == ()
    assert found.unknown == (("default", "a"),)


def test_a_pod_that_only_the_kubelet_has_seen_is_unknown() -> None:
    assert find_candidates(listing({"new": {"trainer": ()}}), {}, 50).unknown == (("default", "new"),)


def test_room_is_promised_to_pods_on_their_way() -> None:
    pods = [
        worker("running-0", gpus="GPU-0", started=True),
        worker("ended-0", gpus="GPU-0", phase="Failed"),
        worker("holding-0", gpus="GPU-0"),
        worker("younger-0", gpus="GPU-1", created="2026-01-01T00:00:09Z"),
        worker("older-0", gpus="GPU-1,GPU-2", asks={"trainer": 200}),
        pod("plain"),
    ]

    on_their_way = pending_pods(pods, [("default", "holding-0")])

    assert [one.name for one in on_their_way] == ["older-0", "plain", "younger-0"]
    assert reserved_percent(on_their_way) == {"GPU-1": 150, "GPU-2": 100}
    assert [(choice.pod, choice.gpus) for choice in operator_choices(on_their_way, 50)] == [
        ("default/younger-0", ("GPU-1",))
    ]


def test_a_plain_pod_neither_chooses_a_gpu_nor_keeps_others_off_it() -> None:
    claims = pod("plain", annotations={names.GPUS_ANNOTATION: "GPU-1"})

    assert operator_choices([claims], 50) == []
    assert reserved_percent([claims]) == {}


def test_what_a_node_no_longer_offers_and_a_container_holds_is_not_free_twice() -> None:
    """Jobs shared GPU-0 before: the one with its second hundred is still there."""
    node, held = inventory(gpu(0), gpu(1)), {*ids(0, range(100, 160)), *ids(1, range(30))}

    free = free_ids((*ids(0, range(100)), *ids(1, range(100))), held, node)

    assert shares_of(free) == {"GPU-0": 40, "GPU-1": 70}
