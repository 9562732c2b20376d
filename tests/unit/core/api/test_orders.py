"""Orders to pods: which of several counts, and whom one is to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.api.gpu_node import GPUNodeSpec
from laneway.api.orders import Order, PodOrder, strongest
from pydantic import ValidationError

orders = st.builds(
    PodOrder,
    podUID=st.sampled_from(["a", "b"]),
    order=st.sampled_from(list(Order)),
    reason=st.sampled_from(["operator", "user"]),
)


@given(st.lists(orders))
def test_the_stronger_order_counts_and_of_equals_the_first(several: list[PodOrder]) -> None:
    chosen = strongest(several)
    assert (chosen is None) == (not several)
    if chosen is not None:
        wanted = Order.OFFLOAD if any(order.order == Order.OFFLOAD for order in several) else Order.PAUSE
        assert chosen == next(order for order in several if order.order == wanted)


def test_an_order_is_to_the_pod_of_its_uid() -> None:
    order = PodOrder(podUID="a", order=Order.PAUSE)
    assert order.concerns("a", "default", "job-0")
    assert not order.concerns("b", "default", "job-0")
    assert not order.concerns("", "default", "job-0"), "who it is, the node could not learn yet"


@pytest.mark.parametrize(
    "wrong", [{"podUID": ""}, {"podUID": "a/b"}, {"order": "Stop"}, {"reason": "x" * 513}]
)
def test_wrong_orders_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        GPUNodeSpec.model_validate({"orders": [{"podUID": "a", "order": "Pause", **wrong}]})


def test_a_node_that_is_asked_nothing_has_no_orders() -> None:
    assert GPUNodeSpec.model_validate({}).orders == ()
