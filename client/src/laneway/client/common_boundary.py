"""One boundary for all ranks of a distributed training: where they stop, or save, together.

A rank that stops alone leaves the others in their next all-reduce until the grace period is over. So the ranks agree, over the key-value
store that torch.distributed has anyway, on one boundary. While nobody wants one, that costs a look into the store each `LOOK_SECONDS`, in a
thread of its own.

A round of it: some rank *wants* a boundary. Each rank, once its listening thread has seen that, is *frozen*: it begins no step by itself
any more, and posts the number of the boundary that it stands at, or is on its way to. The *common boundary* is the highest number
posted. A rank before it goes on to it; a rank at it does what is wanted.

Nobody waits for ever: a rank on its way to the common boundary needs others only for steps up to that boundary, and those they
take, too. Nobody is beyond it: a frozen rank does not go past the number that it has posted. So ranks need not be in step, and one that
waits in an all-reduce is heard all the same.
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

    from laneway.client.board import Board

log = logging.getLogger("laneway.client")

LOOK_SECONDS: Final = 0.2
LOOK_AGAIN_SECONDS: Final = 0.01
"""Between looks while a round goes on."""

ANSWER_SECONDS: Final = 20.0
"""How long a rank at its boundary waits for the others to answer, where it knows of no deadline."""

CLOSE_SECONDS: Final = 5.0

FINISHED: Final = 1 << 62
"""A boundary that nobody reaches: where a rank has come to its end, the others go on to theirs."""

STOP: Final = "stop"
SAVE: Final = "save"


@dataclass
class Round:
    """What the listening thread knows of one round."""

    number: int
    kind: Optional[str] = None
    """What is wanted; the rank is frozen once this is set."""
    called: bool = False
    """This rank has tried to be the one whose wish it is."""
    said: dict[int, int] = field(default_factory=dict)
    """On rank 0: where each rank is."""
    heard: Optional[int] = None
    """The common boundary."""
    counted: bool = False
    """This rank has said that it knows it."""
    common: Optional[int] = None
    """The same, once all know it: nobody needs the board for it any more."""
    patient: bool = True


class CommonBoundary:
    """One rank's view. Its training thread calls `arrive` at each boundary, with numbers that rise and are the same on all ranks."""

    def __init__(
        self,
        board: Board,
        name: str,
        asked: Callable[[], bool],
        seconds_left: Callable[[], Optional[float]],
        at: int = 0,
    ) -> None:
        """Begins to listen.

        Args:
            board: where the ranks leave notes for one another.
            name: tells this sequence of boundaries from others on the board.
            asked: whether this process was asked to stop.
            seconds_left: until the stop's deadline; None when this process was not asked.
            at: the boundary that the training comes to first.
        """
        self._board = board
        self._name = name
        self._asked = asked
        self._seconds_left = seconds_left
        self._changed = threading.Condition()
        self._committed = at
        """The boundary that the training stands at, or is on its way to."""
        self._round = Round(0)
        self._wanted: Optional[str] = None
        self._deaf = False
        """The board is gone: each rank for itself."""
        self._left = False
        self._finished = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="laneway-common-boundary", daemon=True)
        self._thread.start()
        # A thread that is in the store's C++ code when the interpreter ends would take the process down with SIGABRT.
        atexit.register(self.close)

    # --- the training thread ---

    def arrive(self, at: int, setting_out: bool = True) -> Optional[str]:
        """Everything before boundary `at` is done: returns what to do here, None to go on to the next.

        With `setting_out` False the training stays there for now, and this only asks. To be called again when a `SAVE` is done. Takes a lock and nothing else where nobody wants anything.
        """
        with self._changed:
            while self._round.kind is not None:
                kind, common = self._round.kind, self._await_common(self._round)
                if kind == STOP and (common is None or common <= at):
                    self._left = True
                    self._wake.set()
                    return STOP
                if common is None or common > at:
                    break
                self._round = Round(self._round.number + 1)
                self._committed = at
                if common == at:
                    return kind
            if setting_out:
                self._committed = at + 1
        return STOP if self._deaf and self._asked() else None

    def stand(self, at: int) -> None:
        """The training has not set out from boundary `at` after all: it waits there, and may wait for long."""
        with self._changed:
            if self._round.kind is None:
                self._committed = at

    def want(self, kind: str) -> None:
        """Has all ranks do something at a common boundary soon, unless they are about to do something already."""
        if self._wanted is None:
            self._wanted = kind
            self._wake.set()

    def finish(self) -> None:
        """The training comes to no boundary any more."""
        self._finished = True
        self._wake.set()

    def close(self) -> None:
        """The process ends: stops listening, without a word."""
        self._left = True
        self._wake.set()
        self._thread.join(CLOSE_SECONDS)

    def _await_common(self, current: Round) -> Optional[int]:
        left_seconds = self._seconds_left()
        wait_seconds = ANSWER_SECONDS if left_seconds is None else left_seconds
        deadline_seconds = time.monotonic() + wait_seconds
        while current.patient and current.common is None and not self._deaf:
            left_seconds = deadline_seconds - time.monotonic()
            if left_seconds <= 0:
                current.patient = False
                log.warning(
                    "not all ranks said in %.0f s where they are, so this one will %s by itself",
                    wait_seconds,
                    "stop" if current.kind == STOP else "go on",
                )
            self._changed.wait(max(0.0, left_seconds))
        return current.heard if current.common is None else current.common

    # --- the listening thread ---

    def _listen(self) -> None:
        look_seconds = LOOK_SECONDS * max(1.0, self._board.world_size / 100)
        try:
            while not self._left:
                current = self._round
                if self._finished and (current.kind is None or current.counted):
                    self._board.put(f"{self._name}/finished/{self._board.rank}", "")
                    return
                if current.kind is None:
                    self._look_for_wish(current)
                elif current.common is None:
                    self._look_for_common(current)
                self._wake.wait(look_seconds if current.kind is None else LOOK_AGAIN_SECONDS)
                self._wake.clear()
        except Exception as gone:  # the store's: its server goes with the process that has it
            log.debug("the ranks' common store is gone: %r", gone)
            with self._changed:
                self._deaf = True
                self._changed.notify_all()

    def _look_for_wish(self, current: Round) -> None:
        topic = f"{self._name}/{current.number}"
        wish = STOP if self._asked() else self._wanted
        if wish is not None and not current.called:
            current.called = True
            if self._board.add(f"{topic}/claim", 1) == 1:
                self._board.put(f"{topic}/kind", wish)
        kind = self._board.look(f"{topic}/kind")
        if kind is None:
            return
        if self._wanted == kind:
            self._wanted = None
        with self._changed:
            current.kind = kind
            committed = self._committed
        # The training begins nothing beyond this number from here on.
        self._board.put(f"{topic}/at/{self._board.rank}", str(committed))

    def _look_for_common(self, current: Round) -> None:
        topic = f"{self._name}/{current.number}"
        if current.heard is None:
            current.heard = (
                self._reckon(topic, current) if self._board.rank == 0 else self._told(topic, "common", 0)
            )
            if current.heard is None:
                return
        if not current.counted:
            current.counted = True
            self._board.add(f"{topic}/heard", 1)
        if current.heard == FINISHED or self._board.add(f"{topic}/heard", 0) >= self._board.world_size:
            with self._changed:
                current.common = current.heard
                self._changed.notify_all()

    def _reckon(self, topic: str, current: Round) -> Optional[int]:
        """On rank 0: the highest of all, once all have said where they are."""
        for rank in range(self._board.world_size):
            at = None if rank in current.said else self._told(topic, f"at/{rank}", rank)
            if at is not None:
                current.said[rank] = at
        if len(current.said) < self._board.world_size:
            return None
        common = max(current.said.values())
        self._board.put(f"{topic}/common", str(common))
        return common

    def _told(self, topic: str, what: str, rank: int) -> Optional[int]:
        """A number that a rank is to say; `FINISHED` where it has come to its end without."""
        text = self._board.look(f"{topic}/{what}")
        if text is not None:
            return int(text)
        return None if self._board.look(f"{self._name}/finished/{rank}") is None else FINISHED
