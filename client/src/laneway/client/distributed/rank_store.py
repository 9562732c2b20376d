"""Entries that the ranks of a distributed training share, in the key-value store that torch.distributed
created."""

from __future__ import annotations

import json
import sys
import time
from typing import Any, Final, Optional, Protocol

PREFIX: Final = "laneway"
POLL_SECONDS: Final = 0.01


class RankStore(Protocol):
    """A key-value store of texts, each written once, and of counters."""

    @property
    def rank(self) -> int:
        """The rank of this process."""

    @property
    def world_size(self) -> int:
        """The number of ranks."""

    def set(self, key: str, text: str) -> None:
        """Writes an entry."""

    def get(self, key: str) -> Optional[str]:
        """Returns an entry; None if it was not written."""

    def add(self, key: str, number: int) -> int:
        """Adds to a counter; returns its value."""


class TorchRankStore:
    """Uses a store of torch.distributed (TCPStore, FileStore, HashStore)."""

    def __init__(self, store: Any, rank: int, world_size: int) -> None:
        self.rank = rank
        self.world_size = world_size
        self._store = store

    def set(self, key: str, text: str) -> None:
        """Writes an entry."""
        self._store.set(f"{PREFIX}/{key}", text)

    def get(self, key: str) -> Optional[str]:
        """Returns an entry; None if it was not written."""
        name = f"{PREFIX}/{key}"
        return self._store.get(name).decode() if self._store.check([name]) else None

    def add(self, key: str, number: int) -> int:
        """Adds to a counter; returns its value."""
        return int(self._store.add(f"{PREFIX}/{key}", number))


def torch_rank_store() -> Optional[RankStore]:
    """Returns the store of this process's ranks; None for a single process, or before `init_process_group`."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    if distributed.get_world_size() < 2:
        return None
    store = distributed.distributed_c10d._get_default_store()
    return TorchRankStore(store, distributed.get_rank(), distributed.get_world_size())


def all_gather(rank_store: RankStore, topic: str, text: str, timeout_seconds: float) -> list[str]:
    """Returns the texts of all ranks on a topic, by rank. A topic is used once.

    Raises:
        TimeoutError: a rank did not contribute in time.
    """
    deadline_seconds = time.monotonic() + timeout_seconds
    if rank_store.rank > 0:
        rank_store.set(f"{topic}/{rank_store.rank}", text)
        texts: list[str] = json.loads(_await(rank_store, f"{topic}/all", deadline_seconds))
        return texts
    texts = [
        text,
        *(
            _await(rank_store, f"{topic}/{rank}", deadline_seconds)
            for rank in range(1, rank_store.world_size)
        ),
    ]
    rank_store.set(f"{topic}/all", json.dumps(texts))
    return texts


def _await(rank_store: RankStore, key: str, deadline_seconds: float) -> str:
    while True:
        text = rank_store.get(key)
        if text is not None:
            return text
        if time.monotonic() > deadline_seconds:
            raise TimeoutError(f"rank {rank_store.rank} timed out waiting for {key}")
        time.sleep(POLL_SECONDS)
