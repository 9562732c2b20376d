"""The free capacity that the mean worker of a trace cannot use."""

from __future__ import annotations

import pytest
from laneway.scheduling import Demand
from laneway.scheduling.model.gpu_class import class_of
from laneway.simulator import make_nodes
from laneway.simulator.fragmentation import Fragmentation

(NODE,) = make_nodes("1x4")
CLASSES = tuple(map(class_of, NODE.gpus))
WHOLE, HALF, PAIR = Demand(), Demand(share_percent=50), Demand(gpus_per_worker=2)


@pytest.mark.parametrize(
    ("story", "demands", "free", "want"),
    [
        ("whole GPUs are of use to who wants whole ones", [WHOLE], (100, 0, 100, 0), 0.0),
        ("parts are not", [WHOLE], (60, 40, 0, 100), 1.0),
        ("where no GPU is whole, all that is free is of no use", [WHOLE], (60, 40, 0, 0), 1.0),
        ("a part that is large enough is of use", [HALF], (60, 40, 0, 0), 0.4),
        ("the mean over the workers counts", [HALF, WHOLE], (60, 40, 0, 0), (0.4 + 1.0) / 2),
        ("a gang counts with each of its workers", [Demand(3), HALF], (60, 40, 0, 0), (0.4 + 3 * 1.0) / 4),
        ("one GPU is of no use to a worker that wants two", [PAIR], (100, 0, 0, 0), 1.0),
        ("two are", [PAIR], (100, 100, 0, 0), 0.0),
        ("another model is of no use", [Demand(models=frozenset({"H100"}))], (100, 100, 0, 0), 2.0),
    ],
)
def test_fragments(story: str, demands: list[Demand], free: tuple[int, ...], want: float) -> None:
    assert Fragmentation(demands).fragment_gpus(CLASSES, free) == pytest.approx(want), story
