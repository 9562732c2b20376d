"""How hundredths may be laid over GPUs."""

from __future__ import annotations

import pytest
from laneway.device_plugin.gpu_layouts import GPULayout, layouts_for, split_error

from tests.support.device_plugin.builders import gpu


@pytest.mark.parametrize(
    ("size", "offer", "want"),
    [
        (1, 100, [GPULayout(1, 1)]),
        (100, 100, [GPULayout(1, 100)]),
        (100, 200, [GPULayout(1, 100)]),
        (200, 100, [GPULayout(2, 100)]),
        (200, 200, [GPULayout(2, 100), GPULayout(1, 200)]),
        (150, 200, [GPULayout(1, 150)]),
        (300, 150, [GPULayout(3, 100), GPULayout(2, 150)]),
        (130, 100, []),
        (250, 200, []),
        (400, 800, [GPULayout(4, 100), GPULayout(1, 400)]),
        (800, 800, [GPULayout(8, 100), GPULayout(2, 400), GPULayout(1, 800)]),
    ],
)
def test_layouts_of_a_size(size: int, offer: int, want: list[GPULayout]) -> None:
    assert list(layouts_for(size, offer)) == want


@pytest.mark.parametrize(
    ("shares", "allowed"),
    [
        ({"GPU-0": 1}, True),
        ({"GPU-0": 170}, True),
        ({"GPU-0": 100, "GPU-1": 100}, True),
        ({"GPU-0": 200, "GPU-1": 200}, True),
        ({"GPU-0": 50, "GPU-1": 50}, False),
        ({"GPU-0": 100, "GPU-1": 50}, False),
        ({"GPU-0": 200, "GPU-1": 100}, False),
        ({"GPU-0": 150, "GPU-1": 150}, False),
    ],
)
def test_which_shares_a_container_may_hold(shares: dict[str, int], allowed: bool) -> None:
    reason = split_error(shares, [gpu(0, offer=200), gpu(1, offer=200)])

    assert (reason == "") is allowed
    if not allowed:
        assert "would be split over GPUs" in reason
        assert "multiple of 100" in reason


@pytest.mark.parametrize(("percent", "allowed"), [(400, True), (800, True), (300, False)])
def test_exclusive_use_of_several_gpus_takes_all_that_take_turns(percent: int, allowed: bool) -> None:
    gpus = [gpu(0, offer=800), gpu(1, offer=800)]
    assert (split_error({"GPU-0": percent, "GPU-1": percent}, gpus) == "") is allowed
