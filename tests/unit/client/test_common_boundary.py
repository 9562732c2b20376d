"""Ranks agree on one boundary whenever one of them is asked to stop, whether or not they are in step."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.client.distributed import common_boundary
from laneway.client.distributed.common_boundary import SAVE, STOP, CommonBoundary
from laneway.client.distributed.rank_store import all_gather

from tests.support.property_examples import examples
from tests.unit.client.fake_agent import TIMEOUT_SECONDS
from tests.unit.client.waiting import wait_until

LONGEST = 10_000_000
"""More steps than any training does before its ranks agree, however late the threads that poll are."""


class Memory:
    """What the stores of all ranks share."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}
        self.counters: dict[str, int] = defaultdict(int)
        self.lock = threading.Lock()
        self.gone = False


@dataclass
class MemoryStore:
    """A rank's view of it."""

    memory: Memory
    rank: int
    world_size: int

    def set(self, key: str, text: str) -> None:
        with self.memory.lock:
            assert key not in self.memory.entries, f"{key} is written twice"
            self.memory.entries[key] = text

    def get(self, key: str) -> str | None:
        if self.memory.gone:
            raise ConnectionError("the store is gone")
        return self.memory.entries.get(key)

    def add(self, key: str, number: int) -> int:
        with self.memory.lock:
            self.memory.counters[key] += number
            return self.memory.counters[key]


@dataclass
class Rank:
    """A training whose every `reduce_every`-th step needs all ranks."""

    rank_store: MemoryStore
    reduce: threading.Barrier
    reduce_every: int
    steps: int
    asked_at: int | None = None
    save_at: int | None = None
    """When this rank requests a save; it is asked to stop after that."""
    asked: bool = False
    saves: list[int] = field(default_factory=list)
    stopped_at: int | None = None
    ended: bool = False
    failure: BaseException | None = None

    def run(self) -> None:
        try:
            self.train()
        except BaseException as failure:
            self.failure = failure

    def train(self) -> None:
        common = CommonBoundary(self.rank_store, "test", lambda: self.asked, lambda: None, at=1)
        for step in range(1, self.steps + 1):
            if self.asked_at is not None and step >= self.asked_at and (self.save_at is None or self.saves):
                self.asked = True
            if step == self.save_at:
                common.request(SAVE)
            if step % self.reduce_every == 0:
                self.reduce.wait(TIMEOUT_SECONDS)
            kind = common.arrive(step)
            while kind == SAVE:
                self.saves.append(step)
                kind = common.arrive(step)
            if kind == STOP:
                self.stopped_at = step
                return
        common.finish()
        self.ended = True


@pytest.fixture(autouse=True, scope="module")
def quick() -> object:
    """Polls as often as these trainings step."""
    before = common_boundary.IDLE_POLL_SECONDS, common_boundary.POLL_SECONDS
    common_boundary.IDLE_POLL_SECONDS, common_boundary.POLL_SECONDS = 0.001, 0.0005  # type: ignore[misc]
    yield
    common_boundary.IDLE_POLL_SECONDS, common_boundary.POLL_SECONDS = before  # type: ignore[misc]


def train(
    asked_at: list[int | None], reduce_every: int = 1, steps: int = LONGEST, save_at: int | None = None
) -> list[Rank]:
    """Runs ranks in threads until they end."""
    memory, reduce = Memory(), threading.Barrier(len(asked_at))
    ranks = [
        Rank(MemoryStore(memory, rank, len(asked_at)), reduce, reduce_every, steps, at)
        for rank, at in enumerate(asked_at)
    ]
    ranks[0].save_at = save_at
    threads = [threading.Thread(target=rank.run, daemon=True) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_SECONDS)
        assert not thread.is_alive(), "the ranks wait for one another"
    for rank in ranks:
        if rank.failure is not None:
            raise rank.failure
    return ranks


@settings(max_examples=examples(25))
@given(
    asked_at=st.lists(st.one_of(st.none(), st.integers(1, 40)), min_size=2, max_size=4).filter(any),
    reduce_every=st.sampled_from([1, 3]),
)
def test_all_ranks_stop_at_the_same_boundary(asked_at: list[int | None], reduce_every: int) -> None:
    ranks = train(asked_at, reduce_every)
    stopped = {rank.stopped_at for rank in ranks}
    assert len(stopped) == 1
    assert stopped != {None}


@settings(max_examples=10)
@given(save_at=st.integers(1, 40), asked_at=st.integers(1, 80))
def test_all_ranks_save_at_the_same_boundary_and_go_on(save_at: int, asked_at: int) -> None:
    first, *others = train([asked_at, None, None], reduce_every=5, save_at=save_at)
    assert len(first.saves) == 1
    assert all(rank.saves == first.saves for rank in others)
    assert first.stopped_at is not None
    assert first.stopped_at >= first.saves[0]
    assert all(rank.stopped_at == first.stopped_at for rank in others)


def test_ranks_near_their_end_run_to_it(quick: None) -> None:
    ranks = train([20, None], steps=20)
    assert len({rank.stopped_at for rank in ranks}) == 1, "all stopped at their last step, or none did"


def test_a_rank_that_lost_the_store_stops_alone() -> None:
    memory = Memory()
    asked = threading.Event()
    common = CommonBoundary(MemoryStore(memory, 0, 2), "test", asked.is_set, lambda: None)
    assert common.arrive(1) is None
    memory.gone = True
    asked.set()
    wait_until(lambda: common.arrive(2) == STOP, "it knows that the store is gone")


def test_a_rank_without_answers_stops_by_its_deadline() -> None:
    asked = threading.Event()
    common = CommonBoundary(MemoryStore(Memory(), 0, 2), "test", asked.is_set, lambda: 0.05)
    assert common.arrive(1) is None
    asked.set()
    wait_until(lambda: common.arrive(2) == STOP, "its time is up")


def test_all_ranks_receive_each_others_texts() -> None:
    memory, results = Memory(), {}
    threads = [
        threading.Thread(
            target=lambda rank=rank: results.update(
                {rank: all_gather(MemoryStore(memory, rank, 3), "topic", f"of {rank}", TIMEOUT_SECONDS)}
            )
        )
        for rank in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_SECONDS)
    assert results == {rank: ["of 0", "of 1", "of 2"] for rank in range(3)}


def test_a_missing_rank_is_named() -> None:
    with pytest.raises(TimeoutError, match="rank 0 timed out waiting for topic/1"):
        all_gather(MemoryStore(Memory(), 0, 2), "topic", "", timeout_seconds=0.02)


def test_ranks_that_wait_at_a_boundary_stop_there() -> None:
    memory, asked = Memory(), threading.Event()
    ranks = [
        CommonBoundary(MemoryStore(memory, rank, 2), "test", asked.is_set, lambda: None) for rank in range(2)
    ]
    for common in ranks:
        assert common.arrive(7) is None
        common.wait_at(7)
        assert common.arrive(7, continuing=False) is None
    asked.set()
    for common in ranks:
        wait_until(
            lambda common=common: common.arrive(7, continuing=False) == STOP, "it stops where it stands"
        )
