"""One container's memory account against a model that only adds up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from laneway.lanes import MemoryAccount

QUOTA = 1000
PROCESSES = st.integers(1, 4)
SIZES = st.integers(0, 1200)


def test_a_reservation_is_granted_to_the_last_byte_and_not_one_more() -> None:
    account = MemoryAccount(QUOTA)
    account.enter(1)
    account.enter(2)
    assert account.reserve(1, 600)
    assert not account.reserve(2, 401)
    assert account.reserve(2, 400)
    assert (account.used_bytes, account.used_by(1), account.used_by(2), account.refusals) == (
        1000,
        600,
        400,
        1,
    )
    account.leave(1)
    assert account.used_bytes == 400


def test_framework_memory_counts_once_and_refuses_no_empty_reservation() -> None:
    account = MemoryAccount(QUOTA)
    account.enter(1)
    assert account.reserve(1, QUOTA)
    account.enter(2)
    account.charge_framework(2, 300)
    account.charge_framework(2, 300)
    assert account.used_bytes == 1300
    assert account.reserve(2, 0)
    assert not account.reserve(2, 1)
    account.release(1, 500)
    assert account.reserve(2, 200)
    account.hold(2, 0)
    assert account.used_by(2) == 300, (
        "what a process says that it holds leaves its framework's memory as it is"
    )


@given(SIZES, SIZES)
def test_a_process_releases_nothing_that_it_did_not_reserve(mine: int, released: int) -> None:
    account = MemoryAccount(10 * QUOTA)
    for process in (1, 2):
        account.enter(process)
        account.charge_framework(process, 100)
        account.reserve(process, mine)
    account.release(1, released)
    assert account.used_by(1) == 100 + max(0, mine - released)
    assert account.used_by(2) == 100 + mine


class AccountMachine(RuleBasedStateMachine):
    """Any sequence of calls; the model is a number per process."""

    def __init__(self) -> None:
        super().__init__()
        self.account = MemoryAccount(QUOTA)
        self.reserved: dict[int, int] = {}
        self.framework: dict[int, int] = {}
        self.refusals = 0
        self.beyond = False
        """A process has said that it holds more than was granted, or its framework was charged."""

    @property
    def used(self) -> int:
        return sum(self.reserved.values()) + sum(self.framework.values())

    @rule(process=PROCESSES)
    def enter(self, process: int) -> None:
        self.account.enter(process)
        self.framework.pop(process, None)
        self.reserved[process] = 0

    @rule(process=PROCESSES)
    def leave(self, process: int) -> None:
        self.account.leave(process)
        self.reserved.pop(process, None)
        self.framework.pop(process, None)

    @rule(process=PROCESSES, size=SIZES)
    def reserve(self, process: int, size: int) -> None:
        if process not in self.reserved:
            return
        fits = size == 0 or self.used + size <= QUOTA
        assert self.account.reserve(process, size) is fits
        if fits:
            self.reserved[process] += size
        else:
            self.refusals += 1

    @rule(process=PROCESSES, size=SIZES)
    def release(self, process: int, size: int) -> None:
        if process in self.reserved:
            self.account.release(process, size)
            self.reserved[process] = max(0, self.reserved[process] - size)

    @rule(process=PROCESSES, size=SIZES)
    def hold(self, process: int, size: int) -> None:
        if process in self.reserved:
            self.account.hold(process, size)
            self.reserved[process] = size
            self.beyond = True

    @rule(process=PROCESSES)
    def charge_framework(self, process: int) -> None:
        if process in self.reserved:
            self.account.charge_framework(process, 150)
            self.framework[process] = 150
            self.beyond = True

    @invariant()
    def sums_agree(self) -> None:
        assert self.account.used_bytes == self.used
        assert self.account.processes == self.reserved.keys()
        assert self.account.refusals == self.refusals
        for process, size in self.reserved.items():
            assert self.account.reserved_by(process) == size
            assert self.account.used_by(process) == size + self.framework.get(process, 0)

    @invariant()
    def the_quota_holds(self) -> None:
        assert self.beyond or self.account.used_bytes <= QUOTA


test_any_sequence_of_calls = AccountMachine.TestCase
