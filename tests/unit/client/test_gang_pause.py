"""Ranks that are asked to pause one after another stop after the same iteration, and none waits for a stopped
one."""

from __future__ import annotations

import threading

from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.client.distributed.gang_pause import PauseProposals, pause_together

from tests.unit.client.waiting import wait_until


class Store:
    """The used part of a torch.distributed store."""

    def __init__(self) -> None:
        self._texts: dict[str, bytes] = {}

    def set(self, name: str, text: str) -> None:
        self._texts[name] = text.encode()

    def get(self, name: str) -> bytes:
        return self._texts[name]

    def check(self, names: list[str]) -> bool:
        return all(name in self._texts for name in names)


class Rank:
    """A process that trains as long as it may: an iteration ends when all ranks are in it."""

    def __init__(self, proposals: PauseProposals, done: int) -> None:
        self.proposals = proposals
        self.iterations = done
        self.limit: int | None = None
        self.answered = False
        self.resumed = False
        self._lock = threading.Lock()

    @property
    def is_pausing(self) -> bool:
        return not self.answered and not self.resumed

    @property
    def is_paused(self) -> bool:
        return self.answered and not self.resumed

    def pause_after(self, iterations: int, *, final: bool) -> None:
        with self._lock:
            self.limit = iterations
            self.final = final
            self._answer()

    def may_begin(self) -> bool:
        return self.limit is None or self.iterations < self.limit

    def end_iteration(self) -> None:
        with self._lock:
            self.iterations += 1
            self._answer()

    def _answer(self) -> None:
        if self.limit is not None and self.final and self.iterations >= self.limit:
            self.answered = True

    def ask_to_pause(self, timeout_seconds: float = 60.0) -> threading.Thread:
        pause = self.proposals.begin()
        self.resumed = self.answered = False
        thread = threading.Thread(
            target=pause_together, args=(self.proposals, pause, self, timeout_seconds), daemon=True
        )
        thread.start()
        return thread


def gang(ranks: int, done: int = 5) -> list[Rank]:
    store = Store()
    return [Rank(PauseProposals(store, rank, ranks), done) for rank in range(ranks)]


def step(ranks: list[Rank]) -> bool:
    """Runs one iteration on all ranks, if all may; returns whether they did."""
    if not all(rank.may_begin() for rank in ranks):
        return False
    for rank in ranks:
        rank.end_iteration()
    return True


@settings(max_examples=12)
@given(data=st.data(), count=st.integers(2, 4))
def test_all_ranks_stop_after_the_same_iteration_however_late_each_is_asked(
    data: st.DataObject, count: int
) -> None:
    ranks = gang(count)
    threads = []
    for rank in data.draw(st.permutations(ranks)):
        for _ in range(data.draw(st.integers(0, 3))):
            step(ranks)
        threads.append(rank.ask_to_pause())

    def all_have_answered() -> bool:
        step(ranks)
        return all(rank.answered for rank in ranks)

    wait_until(all_have_answered, "all have paused")
    assert len({rank.iterations for rank in ranks}) == 1
    assert not step(ranks)
    for rank in ranks:
        rank.resumed = True
    for thread in threads:
        thread.join(60)
    assert ranks[0].proposals.read() == [], "no proposal is left for the next pause"


def test_a_rank_inside_an_iteration_is_waited_for() -> None:
    first, second = gang(2)
    thread = first.ask_to_pause()
    wait_until(lambda: first.limit == 6, "it has announced where it stops")
    step([first, second])
    second.iterations += 1  # it has gone on, and waits for the other in iteration 7 or 8
    other = second.ask_to_pause()
    wait_until(lambda: first.limit == second.limit == 8, "the first goes on to where the second is")
    step([first, second])
    first.end_iteration()
    wait_until(lambda: first.answered and second.answered, "both have paused")
    assert first.iterations == second.iterations == 8
    first.resumed = second.resumed = True
    thread.join(60)
    other.join(60)


def test_a_rank_that_pauses_alone_does_not_wait_forever() -> None:
    first, second = gang(2)
    thread = first.ask_to_pause(timeout_seconds=0.0)
    wait_until(lambda: first.limit == 6, "it has announced where it stops")
    step([first, second])
    wait_until(lambda: first.answered, "it has paused")
    first.resumed = True
    thread.join(60)


def test_a_finished_pause_leaves_no_entry() -> None:
    first, _ = gang(2)
    thread = first.ask_to_pause()
    wait_until(lambda: first.proposals.read() == [6], "it has left a note")
    first.resumed = True
    thread.join(60)
    assert first.proposals.read() == []


def test_the_end_of_a_pause_keeps_the_next_ones_entry() -> None:
    proposals = gang(2)[0].proposals
    before = proposals.begin()
    after = proposals.begin()
    proposals.post(after, "7")
    proposals.post(before, "")
    assert proposals.read() == [7]


def test_the_end_of_the_process_ends_the_thread_during_a_pause() -> None:
    first, _ = gang(2)
    thread = first.ask_to_pause()
    wait_until(lambda: first.proposals.read() == [6], "it has left a note")
    first.proposals.reader = thread
    first.proposals.end()
    assert not thread.is_alive()
    assert first.proposals.read() == []
