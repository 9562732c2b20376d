"""The account of storages is exact at any moment, in whichever thread they are freed."""

from __future__ import annotations

import itertools
import threading

from laneway.client.memory.storage_account import StorageAccount


class Storage:
    """What the account uses of a torch.UntypedStorage."""

    _addresses = itertools.count(1)

    def __init__(self, size: int) -> None:
        self._cdata = next(self._addresses)
        self.size = size

    def nbytes(self) -> int:
        return self.size


def test_counts_live_storages() -> None:
    account = StorageAccount()
    first, second = Storage(100), Storage(50)
    assert account.record(first) == account.record(second) == 0
    assert account.held == 150
    del first
    assert account.apply_frees() == 50


def test_counts_a_storage_once() -> None:
    account = StorageAccount()
    storage = Storage(100)
    account.record(storage)
    account.record(storage)
    assert account.held == 100


def test_follows_a_resized_storage() -> None:
    account = StorageAccount()
    storage = Storage(100)
    account.record(storage)
    storage.size = 30
    account.record(storage)
    assert account.held == 30
    storage.size = 300
    account.record(storage)
    assert account.held == account.highest == 300
    del storage
    assert account.apply_frees() == 0


def test_keeps_the_peak_since_the_last_reset() -> None:
    account = StorageAccount()
    kept = Storage(10)
    account.record(kept)
    gone = Storage(1000)
    account.record(gone)
    del gone
    assert account.apply_frees() == 10
    assert account.highest == 1010
    account.reset_peak()
    assert account.highest == 10


def test_earlier_frees_make_space_for_a_record() -> None:
    account = StorageAccount()
    account.limit = 100
    first = Storage(80)
    account.record(first)
    del first
    assert account.record(Storage(90)) == 0


def test_refuses_growth_beyond_the_limit_without_counting_it() -> None:
    account = StorageAccount()
    account.limit = 100
    kept, refused = Storage(80), Storage(21)
    account.record(kept)
    assert account.record(refused) == 21
    assert account.held == 80
    del refused
    assert account.apply_frees() == 80


def test_a_reused_address_is_another_storage() -> None:
    account = StorageAccount()
    first = Storage(100)
    address = first._cdata
    account.record(first)
    del first
    second = Storage(40)
    second._cdata = address
    account.record(second)
    assert account.held == 40


def test_storages_may_die_in_other_threads() -> None:
    account = StorageAccount()
    handed_over: list[list[Storage]] = []
    for _ in range(50):
        storages = [Storage(1) for _ in range(100)]
        for storage in storages:
            account.record(storage)
        del storage
        handed_over.append(storages)
        del storages
    threads = [threading.Thread(target=chunk.clear) for chunk in handed_over]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert account.apply_frees() == 0


def test_distinguishes_a_storage_from_an_earlier_one_at_its_address() -> None:
    account = StorageAccount()
    first = Storage(100)
    account.record(first)
    assert account.is_recorded(first)
    address = first._cdata
    del first
    second = Storage(40)
    second._cdata = address
    assert not account.is_recorded(second)
