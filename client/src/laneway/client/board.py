"""Notes that the ranks of a distributed training leave for one another, in the key-value store that torch.distributed made at their rendezvous."""

from __future__ import annotations

import json
import sys
import time
from typing import Any, Final, Optional, Protocol

PREFIX: Final = "laneway"
LOOK_AGAIN_SECONDS: Final = 0.01


class Board(Protocol):
    """Keys and texts, written once each, and counters."""

    @property
    def rank(self) -> int:
        """Whose view this is."""

    @property
    def world_size(self) -> int:
        """How many ranks there are."""

    def put(self, key: str, text: str) -> None:
        """Leaves a note."""

    def look(self, key: str) -> Optional[str]:
        """The note, if it is there."""

    def add(self, key: str, number: int) -> int:
        """Adds to a counter; returns its value."""


class StoreBoard:
    """On a store of torch.distributed (TCPStore, FileStore, HashStore)."""

    def __init__(self, store: Any, rank: int, world_size: int) -> None:
        self.rank = rank
        self.world_size = world_size
        self._store = store

    def put(self, key: str, text: str) -> None:
        """Leaves a note."""
        self._store.set(f"{PREFIX}/{key}", text)

    def look(self, key: str) -> Optional[str]:
        """The note, if it is there."""
        name = f"{PREFIX}/{key}"
        return self._store.get(name).decode() if self._store.check([name]) else None

    def add(self, key: str, number: int) -> int:
        """Adds to a counter; returns its value."""
        return int(self._store.add(f"{PREFIX}/{key}", number))


def torch_board() -> Optional[Board]:
    """The board of this process's ranks; None where it is not one of several, or does not know yet."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    if distributed.get_world_size() < 2:
        return None
    store = distributed.distributed_c10d._get_default_store()
    return StoreBoard(store, distributed.get_rank(), distributed.get_world_size())


def gather(board: Board, topic: str, text: str, timeout_seconds: float) -> list[str]:
    """What every rank has to say on a topic, by rank; each gets the same list. A topic is used once.

    Raises:
        TimeoutError: not all have spoken in time.
    """
    deadline_seconds = time.monotonic() + timeout_seconds
    if board.rank > 0:
        board.put(f"{topic}/{board.rank}", text)
        told: list[str] = json.loads(_await(board, f"{topic}/all", deadline_seconds))
        return told
    said = [
        text,
        *(_await(board, f"{topic}/{rank}", deadline_seconds) for rank in range(1, board.world_size)),
    ]
    board.put(f"{topic}/all", json.dumps(said))
    return said


def _await(board: Board, key: str, deadline_seconds: float) -> str:
    while True:
        text = board.look(key)
        if text is not None:
            return text
        if time.monotonic() > deadline_seconds:
            raise TimeoutError(f"rank {board.rank} waited in vain for {key} of another rank")
        time.sleep(LOOK_AGAIN_SECONDS)
