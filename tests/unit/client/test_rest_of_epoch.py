"""The rest of an epoch after the number of ranks or the batch size has changed: each sample once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from laneway.client.checkpoint.position import Position
from laneway.client.checkpoint.rest_of_epoch import remaining_part


@dataclass
class DividedOrder:
    """Divides like PyTorch's DistributedSampler, and has its attributes."""

    dataset: range
    num_replicas: int
    rank: int
    drop_last: bool = False
    num_samples: int = field(init=False)
    total_size: int = field(init=False)

    def __post_init__(self) -> None:
        length = len(self.dataset)
        self.num_samples = length // self.num_replicas if self.drop_last else -(-length // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        order = random.Random(1).sample(self.dataset, len(self.dataset))
        order = (order * (1 + self.total_size // len(order)))[: self.total_size]
        return iter(order[self.rank :: self.num_replicas])


def batches(size: int, local_batch: int, parts: list[list[int]]) -> list[list[int]]:
    """The samples of each step of all ranks."""
    return [
        [sample for part in parts for sample in part[first : first + local_batch]]
        for first in range(0, size, local_batch)
    ]


@given(
    samples=st.integers(1, 60),
    stages=st.lists(
        st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(0, 4)), min_size=1, max_size=4
    ),
    drop_last=st.booleans(),
)
def test_an_epoch_with_many_layouts_trains_each_sample_once(
    samples: int, stages: list[tuple[int, int, int]], drop_last: bool
) -> None:
    """Each stage is a number of ranks, a local batch, and the steps until the next stage."""
    trained: list[int] = []
    position = Position()
    for index, (ranks, local_batch, steps) in enumerate(stages):
        if position.within_epoch and not position.has_layout(ranks, local_batch):
            position.begin_layout(ranks, local_batch)
        position.ranks, position.local_batch = ranks, local_batch
        parts = [
            remaining_part(DividedOrder(range(samples), ranks, rank, drop_last), position.earlier_samples)
            for rank in range(ranks)
        ]
        assert len({len(part) for part in parts}) == 1, "ranks take the same number of steps"
        done = position.batch - position.earlier_batches
        rest = batches(len(parts[0]), local_batch, parts)[done:]
        last = index == len(stages) - 1
        for batch in rest if last else rest[:steps]:
            trained += batch
            position.batch += 1
    most_ranks = max(ranks for ranks, _, _ in stages)
    missing, again = set(range(samples)) - set(trained), len(trained) - len(set(trained))
    assert len(missing) <= (len(stages) * (most_ranks - 1) if drop_last else 0)
    assert again <= (0 if drop_last else len(stages) * (most_ranks - 1))


def test_a_position_of_an_earlier_release_is_continued() -> None:
    old = {"boundary": 7, "step": 7, "epoch": 1, "batch": 3, "epoch_random": {}, "pass_random": {}}
    position = Position.restored(old)
    position.ranks = 4
    assert position.has_layout(4, 8), "its batch size is not known, so it counts as the same"
    assert not position.has_layout(2, 8)
    position.begin_layout(2, 8)
    assert (position.earlier_samples, position.earlier_batches) == (3 * 8 * 4, 3)
    position.begin_epoch()
    assert not position.within_epoch
    assert Position.restored(position.saved()) == position
