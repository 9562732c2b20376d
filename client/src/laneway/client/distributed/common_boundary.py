"""A boundary at which all ranks of a distributed training stop or save together.

A rank that stops alone leaves the others in their next all-reduce until the grace period is over. So the
ranks agree on one boundary through torch.distributed's key-value store. While no rank requests a boundary,
that costs a read of the store every `IDLE_POLL_SECONDS`, in a separate thread.

In each round some rank *requests* a boundary. Once a rank's listening thread has seen the request, the rank
is *frozen*: it starts no further step on its own, and posts the number of the boundary that it is at or
working towards. The *common boundary* is the highest number posted. Ranks before it go on to it; ranks at it
do what was requested.

No rank waits forever: a rank that works towards the common boundary needs the others only for steps up to
that boundary, which they take as well. No rank is beyond it, because a frozen rank does not pass the number
that it has posted. So ranks need not be in step, and a rank that waits in an all-reduce still takes part.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Optional

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.distributed.rank_store import RankStore

log = logging.getLogger("laneway.client")

IDLE_POLL_SECONDS: Final = 0.2
POLL_SECONDS: Final = 0.01
"""Between reads of the store during a round."""

ANSWER_TIMEOUT_SECONDS: Final = 20.0
"""How long a rank at its boundary waits for the others' answers where it has no deadline."""

JOIN_TIMEOUT_SECONDS: Final = 5.0

FINISHED: Final = 1 << 62
"""A boundary that is never reached: once a rank has finished, the others run to their own end."""

STOP: Final = "stop"
SAVE: Final = "save"


@dataclass
class Round:
    """The listening thread's knowledge of one round."""

    number: int
    kind: Optional[str] = None
    """What was requested; once set, the rank is frozen."""
    proposed: bool = False
    """This rank has tried to make the request of this round."""
    positions: dict[int, int] = field(default_factory=dict)
    """On rank 0: the boundary posted by each rank."""
    announced: Optional[int] = None
    """The common boundary."""
    acknowledged: bool = False
    """This rank has acknowledged the common boundary."""
    common: Optional[int] = None
    """The common boundary once all ranks have acknowledged it; from then on the store is not needed."""
    waiting: bool = True


class CommonBoundary:
    """One rank's view. The training thread calls `arrive` at each boundary, with increasing numbers that are
    the same on all ranks."""

    def __init__(
        self,
        rank_store: RankStore,
        name: str,
        stop_requested: Callable[[], bool],
        seconds_left: Callable[[], Optional[float]],
        at: int = 0,
    ) -> None:
        """Starts the listening thread.

        Args:
            rank_store: the store shared by the ranks.
            name: distinguishes this sequence of boundaries from others in the store.
            stop_requested: returns whether this process was asked to stop.
            seconds_left: returns the time until the deadline of the stop; None when this process was not
                asked.
            at: the boundary that the training reaches first.
        """
        self._rank_store = rank_store
        self._name = name
        self._stop_requested = stop_requested
        self._seconds_left = seconds_left
        self._changed = threading.Condition()
        self._committed = at
        """The boundary that the training is at or working towards."""
        self._round = Round(0)
        self._requested_kind: Optional[str] = None
        self._store_lost = False
        """The store is gone: each rank acts on its own."""
        self._closed = False
        self._finished = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="laneway-common-boundary", daemon=True)
        self._thread.start()
        # A thread inside the store's C++ code at interpreter exit would abort the process (SIGABRT).
        atexit.register(self.close)

    # --- the training thread ---

    def arrive(self, at: int, continuing: bool = True) -> Optional[str]:
        """Returns what to do at boundary `at`, or None to continue to the next.

        Call it again after a `SAVE`. With `continuing` False, the training stays at the boundary for now.
        Without a request the call costs one lock.
        """
        with self._changed:
            while self._round.kind is not None:
                kind, common = self._round.kind, self._wait_for_common(self._round)
                if kind == STOP and (common is None or common <= at):
                    self._closed = True
                    self._wake.set()
                    return STOP
                if common is None or common > at:
                    break
                self._round = Round(self._round.number + 1)
                self._committed = at
                if common == at:
                    return kind
            if continuing:
                self._committed = at + 1
        return STOP if self._store_lost and self._stop_requested() else None

    def wait_at(self, at: int) -> None:
        """Records that the training stays at boundary `at`, possibly for long, instead of going on."""
        with self._changed:
            if self._round.kind is None:
                self._committed = at

    def request(self, kind: str) -> None:
        """Makes all ranks do something at a common boundary soon, unless a round is already under way."""
        if self._requested_kind is None:
            self._requested_kind = kind
            self._wake.set()

    def finish(self) -> None:
        """Records that the training reaches no further boundary."""
        self._finished = True
        self._wake.set()

    def close(self) -> None:
        """Stops listening without notice, as the process ends."""
        self._closed = True
        self._wake.set()
        self._thread.join(JOIN_TIMEOUT_SECONDS)

    def _wait_for_common(self, current: Round) -> Optional[int]:
        left_seconds = self._seconds_left()
        wait_seconds = ANSWER_TIMEOUT_SECONDS if left_seconds is None else left_seconds
        deadline_seconds = time.monotonic() + wait_seconds
        while current.waiting and current.common is None and not self._store_lost:
            left_seconds = deadline_seconds - time.monotonic()
            if left_seconds <= 0:
                current.waiting = False
                log.warning(
                    "some ranks did not answer within %.0f s, so this rank will %s on its own",
                    wait_seconds,
                    "stop" if current.kind == STOP else "go on",
                )
            self._changed.wait(max(0.0, left_seconds))
        return current.announced if current.common is None else current.common

    # --- the listening thread ---

    def _listen(self) -> None:
        poll_seconds = IDLE_POLL_SECONDS * max(1.0, self._rank_store.world_size / 100)
        try:
            while not self._closed:
                current = self._round
                if self._finished and (current.kind is None or current.acknowledged):
                    self._rank_store.set(f"{self._name}/finished/{self._rank_store.rank}", "")
                    return
                if current.kind is None:
                    self._poll_request(current)
                elif current.common is None:
                    self._poll_common(current)
                self._wake.wait(poll_seconds if current.kind is None else POLL_SECONDS)
                self._wake.clear()
        except Exception as gone:  # the store is served by one of the processes and ends with it
            log.debug("the key-value store of the ranks is gone: %r", gone)
            with self._changed:
                self._store_lost = True
                self._changed.notify_all()

    def _poll_request(self, current: Round) -> None:
        topic = f"{self._name}/{current.number}"
        kind_to_propose = STOP if self._stop_requested() else self._requested_kind
        if kind_to_propose is not None and not current.proposed:
            current.proposed = True
            if self._rank_store.add(f"{topic}/claim", 1) == 1:
                self._rank_store.set(f"{topic}/kind", kind_to_propose)
        kind = self._rank_store.get(f"{topic}/kind")
        if kind is None:
            return
        if self._requested_kind == kind:
            self._requested_kind = None
        with self._changed:
            current.kind = kind
            committed = self._committed
        # From here on the training begins nothing beyond this number.
        self._rank_store.set(f"{topic}/at/{self._rank_store.rank}", str(committed))

    def _poll_common(self, current: Round) -> None:
        topic = f"{self._name}/{current.number}"
        if current.announced is None:
            current.announced = (
                self._compute_common(topic, current)
                if self._rank_store.rank == 0
                else self._read_number(topic, "common", 0)
            )
            if current.announced is None:
                return
        if not current.acknowledged:
            current.acknowledged = True
            self._rank_store.add(f"{topic}/acknowledged", 1)
        if (
            current.announced == FINISHED
            or self._rank_store.add(f"{topic}/acknowledged", 0) >= self._rank_store.world_size
        ):
            with self._changed:
                current.common = current.announced
                self._changed.notify_all()

    def _compute_common(self, topic: str, current: Round) -> Optional[int]:
        """On rank 0: returns the highest boundary once all ranks have posted theirs."""
        for rank in range(self._rank_store.world_size):
            at = None if rank in current.positions else self._read_number(topic, f"at/{rank}", rank)
            if at is not None:
                current.positions[rank] = at
        if len(current.positions) < self._rank_store.world_size:
            return None
        common = max(current.positions.values())
        self._rank_store.set(f"{topic}/common", str(common))
        return common

    def _read_number(self, topic: str, what: str, rank: int) -> Optional[int]:
        """Returns a number that a rank posts; `FINISHED` if the rank has ended without posting it."""
        text = self._rank_store.get(f"{topic}/{what}")
        if text is not None:
            return int(text)
        return None if self._rank_store.get(f"{self._name}/finished/{rank}") is None else FINISHED
