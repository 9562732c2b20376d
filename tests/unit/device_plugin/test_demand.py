"""Whether a container's GPUs are held as its pod demands."""

from __future__ import annotations

import pytest
from laneway.device_plugin.demand import why_not_as_demanded

from tests.unit.device_plugin.builders import gpu, ids, inventory

NODE = inventory(
    gpu(0, enforcement="watchdog", enforcement_reason="no MPS: it has none"),
    gpu(1, enforcement="mps"),
    gpu(2),
)


@pytest.mark.parametrize("minimum", ["", "cooperative", "watchdog"])
def test_what_is_held_as_demanded_may_start(minimum: str) -> None:
    assert why_not_as_demanded(minimum, [*ids(0, (0, 1)), *ids(1, (0,))], NODE) == ""


def test_the_weakest_of_its_gpus_decides() -> None:
    said = why_not_as_demanded("mps", [*ids(1, (0,)), *ids(0, (0,))], NODE)
    assert said == (
        "it must not start on GPU GPU-0 of node n1: it demands the enforcement 'mps', and 'watchdog' is in force on its "
        "GPU: no MPS: it has none. Lower the annotation laneway.dev/minimum-enforcement, or send the pod to a node whose "
        "GPUNode reports that level"
    )


def test_what_other_gpus_of_the_node_are_held_to_is_of_no_matter() -> None:
    assert why_not_as_demanded("mps", ids(1, (0,)), NODE) == ""


def test_a_level_that_there_is_not_is_refused_everywhere() -> None:
    assert "write one of cooperative, watchdog, mps" in why_not_as_demanded("strict", ids(1, (0,)), NODE)
