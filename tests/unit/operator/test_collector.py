"""The collector of garbage waits while a decision is made."""

from __future__ import annotations

import gc

import pytest
from laneway.operator.collector import paused_collector


def test_it_waits_in_the_block_and_goes_on_after_it_whatever_happens() -> None:
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
