"""Pausing a gang: processes that wait for one another inside their iterations have to stop after the same one.

Where one stopped an iteration earlier than another, that one would be caught in the middle of its next, waiting. So each rank that is told to pause begins
no iteration beyond the one that it is in, leaves a note of that number in the store that torch.distributed has anyway, and reads those of the others. The highest
number counts: who stands before it goes on to it. Nobody is beyond it, and nobody needs another rank beyond it, so all come to it, however late one is told.

Ranks of one gang do the same iterations, so they count alike.
"""

from __future__ import annotations

import atexit
import logging
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Optional, Protocol

if TYPE_CHECKING:
    from laneway.client.session import Session

log = logging.getLogger("laneway.client")

PREFIX: Final = "laneway/pause"
LOOK_SECONDS: Final = 0.02
LOOK_AGAIN_SECONDS: Final = 0.1
"""Whether the pause is over."""
PATIENCE_SECONDS: Final = 15.0
"""How long the others' notes are waited for: perhaps only this one of them is to pause."""
END_SECONDS: Final = 5.0
"""How long the end of the process waits for a store that does not answer."""


class Gang(Protocol):
    """What knows of the other processes."""

    def agree(self, session: Session) -> bool:
        """Finds out where the session pauses, in another thread, and tells it (`Session.pause_from`).

        Returns:
            False, and does nothing, where this process is on its own.
        """


class TorchGang:
    """The ranks of torch.distributed's default process group."""

    def __init__(self) -> None:
        self._notes: Optional[Notes] = None

    def agree(self, session: Session) -> bool:
        """Finds out after which iteration all ranks pause; False where there is no other rank."""
        distributed = sys.modules.get("torch.distributed")
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return False
        ranks = distributed.get_world_size()
        if ranks < 2:
            return False
        store = distributed.distributed_c10d._get_default_store()
        if self._notes is None or self._notes.store is not store:
            self._notes = Notes(store, distributed.get_rank(), ranks)
            # A thread that is inside the store when the interpreter goes takes the process down with it.
            atexit.register(self._notes.end)
        arguments = (self._notes, self._notes.begin(), session)
        thread = threading.Thread(target=_guarded, args=arguments, name="laneway-gang", daemon=True)
        thread.start()
        self._notes.reader = thread
        return True


class Notes:
    """One note for each rank, empty while that rank is not to pause."""

    def __init__(self, store: Any, rank: int, ranks: int) -> None:
        self.store = store
        self.ranks = ranks
        self._rank = rank
        self._pause = 0
        self._lock = threading.Lock()
        self.ended = threading.Event()
        """The process ends: nothing is waited for any more."""
        self.reader: Optional[threading.Thread] = None
        """Of the last pause; that of an earlier one has ended with it."""

    def begin(self) -> int:
        """There is another pause; returns its number."""
        with self._lock:
            self._pause += 1
            return self._pause

    def leave(self, pause: int, text: str) -> None:
        """Leaves this rank's note in place of the one before, unless another pause has begun since."""
        with self._lock:
            if pause == self._pause:
                self.store.set(f"{PREFIX}/{self._rank}", text)

    def end(self) -> None:
        """Has the thread that uses the notes end, and waits for it."""
        self.ended.set()
        if self.reader is not None:
            self.reader.join(END_SECONDS)

    def said(self) -> list[int]:
        """What ranks have said, in no order."""
        names = [f"{PREFIX}/{rank}" for rank in range(self.ranks)]
        notes = [self.store.get(name).decode() for name in names if self.store.check([name])]
        return [int(note) for note in notes if note]


def _guarded(notes: Notes, pause: int, session: Session) -> None:
    try:
        stop_together(notes, pause, session)
    except (
        Exception
    ) as fault:  # a store of another kind, or its end: at worst one of the gang stops too early
        log.debug("the gang could not agree on where to pause: %r", fault)
        session.pause_from(0, final=True)


def stop_together(
    notes: Notes, pause: int, session: Session, patience_seconds: float = PATIENCE_SECONDS
) -> None:
    """Stops the session after the iteration that its gang agrees on; returns when the pause is over."""
    highest = _freeze(session)
    notes.leave(pause, str(highest))
    try:
        deadline_seconds = time.monotonic() + patience_seconds
        complete = False
        while session.is_to_pause and not complete and not notes.ended.is_set():
            said = [highest, *notes.said()]
            complete = len(said) > notes.ranks or time.monotonic() >= deadline_seconds
            if complete or max(said) > highest:
                highest = max(said)
                session.pause_from(highest, final=complete)
            notes.ended.wait(LOOK_SECONDS)
        while (session.is_to_pause or session.is_paused) and not notes.ended.is_set():
            notes.ended.wait(LOOK_AGAIN_SECONDS)
    finally:
        notes.leave(pause, "")


def _freeze(session: Session) -> int:
    """Has the session begin no iteration beyond the one that it is in, or about to begin; returns its number."""
    while True:
        number = session.iterations + 1
        session.pause_from(number, final=False)
        # Had it ended meanwhile, and the next begun before this was seen, it would be beyond its own word.
        if session.iterations < number or not session.is_to_pause:
            return number
