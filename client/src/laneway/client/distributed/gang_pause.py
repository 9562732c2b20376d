"""Pausing a gang: processes that wait for one another inside their iterations have to stop after the same
one.

If one process stopped an iteration before another, the other would hang in its next iteration. So each rank
that is asked to pause begins no iteration beyond its current one, posts that iteration's number in
torch.distributed's key-value store, and reads the numbers of the others. The highest number counts: ranks
before it go on to it. No rank is beyond it, and none needs another rank beyond it, so all reach it, however
late a rank is asked.

The ranks of a gang run the same iterations, so their numbers agree.
"""

from __future__ import annotations

import atexit
import logging
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Optional

if TYPE_CHECKING:
    from laneway.client.session.pause import Pause

log = logging.getLogger("laneway.client")

PREFIX: Final = "laneway/pause"
POLL_SECONDS: Final = 0.02
PAUSED_POLL_SECONDS: Final = 0.1
"""Between checks whether the pause is over."""
PROPOSAL_TIMEOUT_SECONDS: Final = 15.0
"""How long to wait for the other ranks' numbers: perhaps only this rank was asked to pause."""
JOIN_TIMEOUT_SECONDS: Final = 5.0
"""How long the end of the process waits for a store that does not answer."""


class TorchGang:
    """The ranks of torch.distributed's default process group."""

    def __init__(self) -> None:
        self._proposals: Optional[PauseProposals] = None

    def agree(self, pause: Pause) -> bool:
        """Finds out after which iteration all ranks pause; returns False where there is no other rank."""
        distributed = sys.modules.get("torch.distributed")
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return False
        ranks = distributed.get_world_size()
        if ranks < 2:
            return False
        store = distributed.distributed_c10d._get_default_store()
        if self._proposals is None or self._proposals.store is not store:
            self._proposals = PauseProposals(store, distributed.get_rank(), ranks)
            # A thread inside the store's C++ code at interpreter exit would abort the process.
            atexit.register(self._proposals.end)
        arguments = (self._proposals, self._proposals.begin(), pause)
        thread = threading.Thread(target=_guarded, args=arguments, name="laneway-gang", daemon=True)
        thread.start()
        self._proposals.reader = thread
        return True


class PauseProposals:
    """One number for each rank, empty while that rank is not to pause."""

    def __init__(self, store: Any, rank: int, ranks: int) -> None:
        self.store = store
        self.ranks = ranks
        self._rank = rank
        self._pause = 0
        self._lock = threading.Lock()
        self.ended = threading.Event()
        """The process ends: stop waiting."""
        self.reader: Optional[threading.Thread] = None
        """The thread of the last pause. Threads of earlier pauses ended with them."""

    def begin(self) -> int:
        """Begins another pause; returns its number."""
        with self._lock:
            self._pause += 1
            return self._pause

    def post(self, pause: int, text: str) -> None:
        """Replaces this rank's entry, unless another pause has begun since."""
        with self._lock:
            if pause == self._pause:
                self.store.set(f"{PREFIX}/{self._rank}", text)

    def end(self) -> None:
        """Ends the reader thread and waits for it."""
        self.ended.set()
        if self.reader is not None:
            self.reader.join(JOIN_TIMEOUT_SECONDS)

    def read(self) -> list[int]:
        """Returns the posted numbers, in no particular order."""
        names = [f"{PREFIX}/{rank}" for rank in range(self.ranks)]
        proposals = [self.store.get(name).decode() for name in names if self.store.check([name])]
        return [int(note) for note in proposals if note]


def _guarded(proposals: PauseProposals, number: int, pause: Pause) -> None:
    try:
        pause_together(proposals, number, pause)
    except (
        Exception
    ) as error:  # the store is of another kind, or gone: at worst one rank of the gang stops too early
        log.debug("the gang could not agree on where to pause: %r", error)
        pause.pause_after(0, final=True)


def pause_together(
    proposals: PauseProposals, number: int, pause: Pause, timeout_seconds: float = PROPOSAL_TIMEOUT_SECONDS
) -> None:
    """Pauses the process after the iteration that its gang agrees on; returns when the pause is over."""
    highest = _freeze(pause)
    proposals.post(number, str(highest))
    try:
        deadline_seconds = time.monotonic() + timeout_seconds
        complete = False
        while pause.is_pausing and not complete and not proposals.ended.is_set():
            numbers = [highest, *proposals.read()]
            complete = len(numbers) > proposals.ranks or time.monotonic() >= deadline_seconds
            if complete or max(numbers) > highest:
                highest = max(numbers)
                pause.pause_after(highest, final=complete)
            proposals.ended.wait(POLL_SECONDS)
        while (pause.is_pausing or pause.is_paused) and not proposals.ended.is_set():
            proposals.ended.wait(PAUSED_POLL_SECONDS)
    finally:
        proposals.post(number, "")


def _freeze(pause: Pause) -> int:
    """Prevents any iteration beyond the current or next one; returns that iteration's number."""
    while True:
        iteration = pause.iterations + 1
        pause.pause_after(iteration, final=False)
        # Otherwise that iteration has ended and the next has begun, beyond the number: try again.
        if pause.iterations < iteration or not pause.is_pausing:
            return iteration
