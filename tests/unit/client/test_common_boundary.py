"""Ranks agree on one boundary, whenever one of them is asked to stop, and whether or not they are in step."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.client import common_boundary
from laneway.client.board import gather
from laneway.client.common_boundary import SAVE, STOP, CommonBoundary

from tests.unit.client.fake_agent import TIMEOUT_SECONDS
from tests.unit.client.waiting import wait_until

LONGEST = 3000


class Memory:
    """What the boards of all ranks share."""

    def __init__(self) -> None:
        self.notes: dict[str, str] = {}
        self.counters: dict[str, int] = defaultdict(int)
        self.lock = threading.Lock()
        self.gone = False


@dataclass
class MemoryBoard:
    """A rank's view of it."""

    memory: Memory
    rank: int
    world_size: int

    def put(self, key: str, text: str) -> None:
        with self.memory.lock:
            assert key not in self.memory.notes, f"{key} is written twice"
            self.memory.notes[key] = text

    def look(self, key: str) -> str | None:
        if self.memory.gone:
            raise ConnectionError("the store is gone")
        return self.memory.notes.get(key)

    def add(self, key: str, number: int) -> int:
        with self.memory.lock:
            self.memory.counters[key] += number
            return self.memory.counters[key]


@dataclass
class Rank:
    """A training: steps, of which every `reduce_every`-th needs all ranks."""

    board: MemoryBoard
    reduce: threading.Barrier
    reduce_every: int
    steps: int
    asked_at: int | None = None
    save_at: int | None = None
    """When this rank wants all to save; it is asked to stop after that."""
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
        common = CommonBoundary(self.board, "test", lambda: self.asked, lambda: None, at=1)
        for step in range(1, self.steps + 1):
            if self.asked_at is not None and step >= self.asked_at and (self.save_at is None or self.saves):
                self.asked = True
            if step == self.save_at:
                common.want(SAVE)
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
    """The looks come as fast as the steps of these trainings."""
    before = common_boundary.LOOK_SECONDS, common_boundary.LOOK_AGAIN_SECONDS
    common_boundary.LOOK_SECONDS, common_boundary.LOOK_AGAIN_SECONDS = 0.001, 0.0005  # type: ignore[misc]
    yield
    common_boundary.LOOK_SECONDS, common_boundary.LOOK_AGAIN_SECONDS = before  # type: ignore[misc]


def train(
    asked_at: list[int | None], reduce_every: int = 1, steps: int = LONGEST, save_at: int | None = None
) -> list[Rank]:
    """Runs ranks in threads, up to their end."""
    memory, reduce = Memory(), threading.Barrier(len(asked_at))
    ranks = [
        Rank(MemoryBoard(memory, rank, len(asked_at)), reduce, reduce_every, steps, at)
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


@settings(max_examples=25)
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


def test_ranks_that_are_near_their_end_go_on_to_it(quick: None) -> None:
    ranks = train([20, None], steps=20)
    assert len({rank.stopped_at for rank in ranks}) == 1, "all stopped at their last step, or none did"


def test_a_rank_that_lost_the_others_stops_by_itself() -> None:
    memory = Memory()
    asked = threading.Event()
    common = CommonBoundary(MemoryBoard(memory, 0, 2), "test", asked.is_set, lambda: None)
    assert common.arrive(1) is None
    memory.gone = True
    asked.set()
    wait_until(lambda: common.arrive(2) == STOP, "it knows that nobody is there")


def test_a_rank_whose_others_do_not_answer_stops_by_its_deadline() -> None:
    asked = threading.Event()
    common = CommonBoundary(MemoryBoard(Memory(), 0, 2), "test", asked.is_set, lambda: 0.05)
    assert common.arrive(1) is None
    asked.set()
    wait_until(lambda: common.arrive(2) == STOP, "its time is up")


def test_all_hear_what_each_has_to_say() -> None:
    memory, heard = Memory(), {}
    threads = [
        threading.Thread(
            target=lambda rank=rank: heard.update(
                {rank: gather(MemoryBoard(memory, rank, 3), "topic", f"of {rank}", 10.0)}
            )
        )
        for rank in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_SECONDS)
    assert heard == {rank: ["of 0", "of 1", "of 2"] for rank in range(3)}


def test_a_rank_that_does_not_come_is_named() -> None:
    with pytest.raises(TimeoutError, match="rank 0 waited in vain for topic/1"):
        gather(MemoryBoard(Memory(), 0, 2), "topic", "", timeout_seconds=0.02)


def test_ranks_that_wait_at_a_boundary_are_stopped_there() -> None:
    memory, asked = Memory(), threading.Event()
    ranks = [
        CommonBoundary(MemoryBoard(memory, rank, 2), "test", asked.is_set, lambda: None) for rank in range(2)
    ]
    for common in ranks:
        assert common.arrive(7) is None
        common.stand(7)
        assert common.arrive(7, setting_out=False) is None
    asked.set()
    for common in ranks:
        wait_until(
            lambda common=common: common.arrive(7, setting_out=False) == STOP, "it is told where it stands"
        )
