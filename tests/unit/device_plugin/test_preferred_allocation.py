"""Which ids the plugin prefers."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from laneway.api.device_ids import shares_of
from laneway.api.inventory import InventoryGPU
from laneway.device_plugin.gpu_layouts import split_error
from laneway.device_plugin.preferred_allocation import (
    NoFitError,
    OperatorChoice,
    PreferredRequest,
    preferred_ids,
)

from tests.support.device_plugin.builders import free, gpu, ids


@dataclass(frozen=True)
class Case:
    name: str
    free: dict[int, int]
    size: int
    want: dict[int, int]
    must_include: tuple[str, ...] = ()
    choices: tuple[OperatorChoice, ...] = ()
    reserved: dict[str, int] = field(default_factory=dict)
    links: tuple[tuple[int, int], ...] = ()


CASES = (
    Case("an empty node: the first GPU", {0: 100, 1: 100}, 30, {0: 30}),
    Case("the fullest GPU that still holds it", {0: 100, 1: 40, 2: 60}, 40, {1: 40}),
    Case("a fuller GPU that does not hold it is passed over", {0: 100, 1: 40, 2: 60}, 50, {2: 50}),
    Case(
        "the operator's choice beats best fit",
        {0: 40, 1: 100},
        40,
        {1: 40},
        choices=(OperatorChoice("a", ("GPU-1",)),),
    ),
    Case(
        "a choice without room gives way",
        {0: 100, 1: 30},
        40,
        {0: 40},
        choices=(OperatorChoice("a", ("GPU-1",)),),
    ),
    Case(
        "the choice for the second candidate when the first has no room",
        {0: 100, 1: 30, 2: 50},
        40,
        {2: 40},
        choices=(OperatorChoice("a", ("GPU-1",)), OperatorChoice("b", ("GPU-2",))),
    ),
    Case(
        "a choice of a GPU that is not here is ignored",
        {0: 100},
        40,
        {0: 40},
        choices=(OperatorChoice("a", ("GPU-9",)),),
    ),
    Case(
        "a choice that would split a part of a GPU is ignored",
        {0: 100, 1: 100},
        50,
        {0: 50},
        choices=(OperatorChoice("a", ("GPU-0", "GPU-1")),),
    ),
    Case("promised room is left alone", {0: 50, 1: 100}, 40, {1: 40}, reserved={"GPU-0": 50}),
    Case(
        "promised room is taken when there is no other", {0: 50, 1: 20}, 40, {0: 40}, reserved={"GPU-0": 50}
    ),
    Case("ids that must be taken decide the GPU", {0: 100, 1: 50}, 30, {0: 30}, must_include=ids(0, (7, 8))),
    Case("a whole GPU", {0: 90, 1: 100}, 100, {1: 100}),
    Case("two whole GPUs are two GPUs", {0: 100, 1: 100, 2: 100}, 200, {0: 100, 1: 100}),
    Case("NVLink joins them", {0: 100, 1: 100, 2: 100}, 200, {0: 100, 2: 100}, links=((0, 2),)),
    Case(
        "a joined group that is larger than needed stays whole",
        dict.fromkeys(range(5), 100),
        200,
        {3: 100, 4: 100},
        links=((0, 1), (1, 2), (0, 2), (3, 4)),
    ),
    Case(
        "several GPUs chosen by the operator",
        {0: 100, 1: 100, 2: 100},
        200,
        {1: 100, 2: 100},
        choices=(OperatorChoice("a", ("GPU-2", "GPU-1")),),
        links=((0, 1),),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_preferred_ids(case: Case) -> None:
    count = max(case.free) + 1
    peers = {
        i: tuple(f"GPU-{b if a == i else a}" for a, b in case.links if i in (a, b)) for i in range(count)
    }
    gpus = [gpu(index, nvlink_peers=peers[index]) for index in range(count)]

    preferred = preferred_ids(
        PreferredRequest(case.size, free(case.free), case.must_include), gpus, case.choices, case.reserved
    )

    assert shares_of(preferred.ids) == {f"GPU-{index}": percent for index, percent in case.want.items()}
    assert set(case.must_include) <= set(preferred.ids)
    assert set(preferred.ids) <= set(free(case.free))


def test_whole_gpus_of_one_request_are_on_one_numa_node() -> None:
    """The devices carry no NUMA node, so the kubelet does not see to it."""
    gpus = [gpu(index, numa_node=numa) for index, numa in enumerate((0, 1, 0, 1))]

    preferred = preferred_ids(PreferredRequest(200, free({0: 100, 1: 100, 2: 90, 3: 100})), gpus)

    assert shares_of(preferred.ids) == {"GPU-1": 100, "GPU-3": 100}


def test_an_exclusive_job_on_overcommitted_gpus_gets_all_that_each_offers() -> None:
    gpus = [gpu(0, offer=200), gpu(1, offer=200)]
    available = (*ids(0, range(200)), *ids(1, range(200)))

    one = preferred_ids(PreferredRequest(200, available), gpus, [OperatorChoice("a", ("GPU-1",))])
    two = preferred_ids(PreferredRequest(400, available), gpus, [OperatorChoice("a", ("GPU-0", "GPU-1"))])

    assert shares_of(one.ids) == {"GPU-1": 200}
    assert shares_of(two.ids) == {"GPU-0": 200, "GPU-1": 200}


def test_a_plain_pod_with_two_whole_gpus_gets_half_of_each_overcommitted_one() -> None:
    gpus = [gpu(0, offer=200), gpu(1, offer=200)]
    available = (*ids(0, range(100, 200)), *ids(1, range(200)))

    assert shares_of(preferred_ids(PreferredRequest(200, available), gpus).ids) == {
        "GPU-0": 100,
        "GPU-1": 100,
    }


@pytest.mark.parametrize(
    ("held", "size", "want"),
    [
        ((60, 0), 40, {"GPU-0": 40}),
        ((60, 0), 50, {"GPU-1": 50}),
        ((100, 0), 100, {"GPU-1": 100}),
        ((160, 100), 50, {"GPU-1": 50}),
        ((160, 250), 100, {"GPU-0": 100}),
    ],
    ids=[
        "the fullest within 100 percent",
        "an empty one",
        "a whole one",
        "the emptiest",
        "the emptiest, whole",
    ],
)
def test_a_plain_pod_shares_time_only_where_no_gpu_has_its_share_left(
    held: tuple[int, int], size: int, want: dict[str, int]
) -> None:
    gpus = [gpu(index, offer=800) for index in range(2)]
    available = tuple(one for index in range(2) for one in ids(index, range(held[index], 800)))

    assert shares_of(preferred_ids(PreferredRequest(size, available), gpus).ids) == want


def test_an_offer_that_is_not_a_multiple_of_a_hundred() -> None:
    gpus = [gpu(index, offer=150) for index in range(2)]
    available = tuple(one for index in range(2) for one in ids(index, range(150)))

    assert shares_of(preferred_ids(PreferredRequest(150, available), gpus).ids) == {"GPU-0": 150}
    assert shares_of(preferred_ids(PreferredRequest(300, available), gpus).ids) == {
        "GPU-0": 150,
        "GPU-1": 150,
    }
    assert shares_of(preferred_ids(PreferredRequest(120, available), gpus).ids) == {"GPU-0": 120}


def test_an_unhealthy_gpu_is_not_preferred() -> None:
    gpus = [gpu(0, healthy=False), gpu(1)]

    assert shares_of(preferred_ids(PreferredRequest(10, free({0: 100, 1: 100})), gpus).ids) == {"GPU-1": 10}


@pytest.mark.parametrize(
    ("available", "size", "says"),
    [
        ({0: 40, 1: 30}, 50, "50 percent in one piece free (free percent: GPU-0 40, GPU-1 30)"),
        ({0: 100, 1: 90}, 200, "200 percent as whole GPUs free"),
        ({0: 100, 1: 100}, 130, "request 1 to 100 for a part of one GPU, or a multiple of 100"),
    ],
)
def test_an_impossible_request_is_refused_with_what_is_free(
    available: dict[int, int], size: int, says: str
) -> None:
    with pytest.raises(NoFitError) as raised:
        preferred_ids(PreferredRequest(size, free(available)), [gpu(0), gpu(1)])

    assert says in str(raised.value)


offers = st.sampled_from([100, 150, 200])


@st.composite
def nodes(draw: st.DrawFn) -> tuple[list[InventoryGPU], tuple[str, ...]]:
    """GPUs of a node, and the ids that are free on it."""
    offer = draw(offers)
    count = draw(st.integers(1, 8))
    links = draw(st.sets(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))))
    gpus = [
        gpu(
            index,
            offer=offer,
            healthy=draw(st.booleans()) or draw(st.booleans()),
            numa_node=draw(st.sampled_from([None, 0, 1])),
            nvlink_peers=tuple(f"GPU-{b}" for a, b in links if a == index != b),
        )
        for index in range(count)
    ]
    available = [one for i in range(count) for one in ids(i, range(draw(st.integers(0, offer)), offer))]
    return gpus, tuple(available)


@given(node=nodes(), size=st.integers(1, 800), data=st.data())
def test_whatever_is_preferred_may_be_allocated(
    node: tuple[list[InventoryGPU], tuple[str, ...]], size: int, data: st.DataObject
) -> None:
    """Free, of the right size, on healthy GPUs, never a split part, with all that must be there."""
    gpus, available = node
    assume(available)
    choices = data.draw(st.lists(st.lists(st.sampled_from(gpus), max_size=3), max_size=2))
    choices = [OperatorChoice("w", tuple(one.uuid for one in choice)) for choice in choices]
    reserved = {one.uuid: data.draw(st.integers(0, 200)) for one in gpus}
    healthy = {one.uuid for one in gpus if one.healthy}
    must = tuple(data.draw(st.lists(st.sampled_from(available), max_size=2, unique=True)))

    try:
        preferred = preferred_ids(PreferredRequest(size, available, must), gpus, choices, reserved)
    except NoFitError:
        if size <= 100 and not must:
            room = shares_of(available)
            assert all(room.get(uuid, 0) < size for uuid in healthy), "a GPU that holds it was passed over"
        return

    shares = shares_of(preferred.ids)
    assert len(preferred.ids) == len(set(preferred.ids)) == size
    assert set(preferred.ids) <= set(available)
    assert set(must) <= set(preferred.ids)
    assert set(shares) <= healthy | set(shares_of(must))
    assert split_error(shares, gpus) == ""
    if size <= 100:
        assert len(shares) == 1


@pytest.mark.parametrize("chosen", [("GPU-2", "GPU-3"), ("GPU-0", "GPU-1", "GPU-3")])
def test_an_exclusive_job_gets_all_that_take_turns_on_the_gpus_chosen_for_it(chosen: tuple[str, ...]) -> None:
    gpus = [gpu(index, offer=800) for index in range(4)]
    available = tuple(one for index in range(4) for one in ids(index, range(800)))

    request = PreferredRequest(400 * len(chosen), available)
    preferred = preferred_ids(request, gpus, (OperatorChoice("alone-0", chosen),))

    assert shares_of(preferred.ids) == dict.fromkeys(chosen, 400)


@given(node=nodes(), size=st.integers(1, 100), data=st.data())
def test_the_operators_choice_is_taken_whenever_it_has_room(
    node: tuple[list[InventoryGPU], tuple[str, ...]], size: int, data: st.DataObject
) -> None:
    gpus, available = node
    chosen = data.draw(st.sampled_from(gpus))
    assume(chosen.healthy and shares_of(available).get(chosen.uuid, 0) >= size)
    reserved = {one.uuid: data.draw(st.integers(0, 200)) for one in gpus}

    assert shares_of(
        preferred_ids(
            PreferredRequest(size, available), gpus, [OperatorChoice("w", (chosen.uuid,))], reserved
        ).ids
    ) == {chosen.uuid: size}


@given(
    count=st.integers(1, 8),
    wanted=st.integers(1, 8),
    links=st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7))),
)
def test_whole_gpus_are_distinct(count: int, wanted: int, links: set[tuple[int, int]]) -> None:
    assume(wanted <= count)
    gpus = [
        gpu(i, nvlink_peers=tuple(f"GPU-{b}" for a, b in links if a == i != b < count)) for i in range(count)
    ]

    shares = shares_of(
        preferred_ids(PreferredRequest(100 * wanted, free(dict.fromkeys(range(count), 100))), gpus).ids
    )

    assert len(shares) == wanted
    assert set(shares.values()) == {100}
