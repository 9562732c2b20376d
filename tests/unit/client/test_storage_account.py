"""The account of storages: exact at any moment, whoever lets go of them."""

from __future__ import annotations

import itertools
import threading

from laneway.client.storage_account import StorageAccount


class Storage:
    """As much of a torch.UntypedStorage as the account looks at."""

    _addresses = itertools.count(1)

    def __init__(self, size: int) -> None:
        self._cdata = next(self._addresses)
        self.size = size

    def nbytes(self) -> int:
        return self.size


def test_counts_what_lives() -> None:
    account = StorageAccount()
    first, second = Storage(100), Storage(50)
    assert account.book(first) == account.book(second) == 0
    assert account.held == 150
    del first
    assert account.settle() == 50


def test_counts_a_storage_once() -> None:
    account = StorageAccount()
    storage = Storage(100)
    account.book(storage)
    account.book(storage)
    assert account.held == 100


def test_follows_a_storage_that_is_resized() -> None:
    account = StorageAccount()
    storage = Storage(100)
    account.book(storage)
    storage.size = 30
    account.book(storage)
    assert account.held == 30
    storage.size = 300
    account.book(storage)
    assert account.held == account.highest == 300
    del storage
    assert account.settle() == 0


def test_knows_the_highest_since_the_last_restart() -> None:
    account = StorageAccount()
    kept = Storage(10)
    account.book(kept)
    gone = Storage(1000)
    account.book(gone)
    del gone
    assert account.settle() == 10
    assert account.highest == 1010
    account.restart()
    assert account.highest == 10


def test_frees_before_a_booking_make_room_for_it() -> None:
    account = StorageAccount()
    account.limit = 100
    first = Storage(80)
    account.book(first)
    del first
    assert account.book(Storage(90)) == 0


def test_refuses_what_is_beyond_the_limit_and_does_not_count_it() -> None:
    account = StorageAccount()
    account.limit = 100
    kept, refused = Storage(80), Storage(21)
    account.book(kept)
    assert account.book(refused) == 21
    assert account.held == 80
    del refused
    assert account.settle() == 80


def test_an_address_that_is_used_again_is_another_storage() -> None:
    account = StorageAccount()
    first = Storage(100)
    address = first._cdata
    account.book(first)
    del first
    second = Storage(40)
    second._cdata = address
    account.book(second)
    assert account.held == 40


def test_storages_may_die_in_other_threads() -> None:
    account = StorageAccount()
    handed_over: list[list[Storage]] = []
    for _ in range(50):
        storages = [Storage(1) for _ in range(100)]
        for storage in storages:
            account.book(storage)
        del storage
        handed_over.append(storages)
        del storages
    threads = [threading.Thread(target=chunk.clear) for chunk in handed_over]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert account.settle() == 0


def test_knows_a_storage_from_one_that_was_at_its_address_before() -> None:
    account = StorageAccount()
    first = Storage(100)
    account.book(first)
    assert account.is_booked(first)
    address = first._cdata
    del first
    second = Storage(40)
    second._cdata = address
    assert not account.is_booked(second)
