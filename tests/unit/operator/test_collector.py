"""Python's garbage collector is paused during a decision."""

from __future__ import annotations

import gc
import weakref

import pytest
from laneway.operator.collector import FullCollections, collect_young_only, paused_collector


class _Ring:
    """Nothing frees it but the collector."""

    def __init__(self) -> None:
        self.itself = self


def test_the_collector_is_paused_in_the_block_and_resumes_even_after_an_error() -> None:
    inside = []

    def fails() -> None:
        with paused_collector():
            inside.append(gc.isenabled())
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert inside == [False]
    assert gc.isenabled()


def test_who_had_it_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with paused_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_by_itself_it_looks_through_young_objects_only() -> None:
    before = gc.get_threshold()
    try:
        collect_young_only()
        assert gc.get_threshold()[:2] == before[:2]
        assert gc.get_threshold()[2] > 1_000_000
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize(("idle", "soonest_seconds"), [(True, 300.0), (False, 900.0)])
def test_all_objects_are_looked_through_between_decisions(idle: bool, soonest_seconds: float) -> None:
    clock = [0.0]
    collections = FullCollections(lambda: clock[0])
    ring = _Ring()
    gone = weakref.ref(ring)
    gc.collect()  # it is old now
    del ring
    clock[0] = soonest_seconds - 1
    assert not collections.rest(idle=idle)
    clock[0] = soonest_seconds
    assert collections.rest(idle=idle)
    assert gone() is None
    assert not collections.rest(idle=idle), "it was just done"
