"""The memory of a simulated GPU: the process's CPU tensors stand for what would lie on the device.

    iteration ─▶ schedule: watched?  yes ─▶ every operation's results are booked, and refused beyond the limit
                                     no  ─▶ the process's resident memory is compared with what it was: growth is looked into at the next boundary

A job that is near its limit is always watched, and so is an iteration with larger inputs than any before, so the limit is exact there. A process that compiles (`torch.compile`) is never watched, because PyTorch
compiles nothing under a dispatch mode: its tensors are looked for at boundaries, and the peak between them is that of resident memory.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.compiled_code import has_compiled
from laneway.client.input_sizes import InputSizes
from laneway.client.operation_watch import OperationWatch
from laneway.client.out_of_memory import full_message, out_of_memory_error, report_overrun
from laneway.client.page import HIGHEST_BYTES, ROOM
from laneway.client.resident_memory import ResidentMemory
from laneway.client.storage_account import StorageAccount
from laneway.client.tensor_search import cpu_storages
from laneway.client.watch_schedule import WatchSchedule

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.session import Session

log = logging.getLogger("laneway.client")

LEAST_GROWTH_BYTES: Final = 1 << 20
"""Resident memory varies by less from one iteration to the next that do the same."""
GROWTH_DIVISOR: Final = 50
"""Of what is held: so much more, if that is more, and the process has grown."""
COMPARED_NS: Final = 2_000_000
"""Growth is looked for after this time, not after each of iterations that take microseconds."""
TOLD_NS: Final = 2_000_000
"""What is known is told again after this time, likewise."""
SEARCH_RATIO: Final = 200
"""Searching for tensors takes one part of so many of the time, or less."""
FIRST_SEARCHES: Final = 6
"""Of a process that compiles: so many at once, for the first report."""


class CpuMeter:
    """Measures, and holds to the quota, while the session's GPU is simulated; else does nothing at all."""

    def __init__(self, torch: Any, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._torch = torch
        self._clock = clock
        self._account = StorageAccount()
        self._operations = OperationWatch(torch, self._book, self._account.is_booked)
        self._resident = ResidentMemory()
        self._inputs: Optional[InputSizes] = None
        self._schedule = WatchSchedule()
        self._session: Optional[Session] = None
        self._scheduled: Optional[Session] = None
        """The session that the schedule is for."""
        self._compiles = False
        self._watching = False
        """Every operation of this iteration is."""
        self._measured_from: Optional[tuple[int, int]] = None
        """(bytes held, bytes resident) when an iteration began that is measured at its boundaries."""
        self._known: Optional[tuple[int, int]] = None
        """(bytes held, the most) when it was measured last; told with other iterations, too, whose times are the script's own."""
        self._rests_until_ns = self._rests_with_room = 0
        """Up to this time, and with as much room, iterations are not watched unless their inputs say so: nothing else is asked."""
        self._plain_ns = 0
        """How long the last one took that was not watched."""
        self._began_ns = self._compared_ns = self._told_ns = 0
        self._searches = self._search_due_ns = 0
        self._searched_resident_bytes = 0
        self._explained_bytes: Optional[int] = None
        """The highest mark of resident memory that is accounted for; None: the system has none, so every iteration is watched."""

    def attach(self, session: Session) -> None:
        """Holds the process to this session's quota from the next iteration on."""
        if session.welcome.simulated:
            self._session = session
            self._rests_until_ns = 0

    def begin(self) -> None:
        """An iteration begins, with a new peak if it is watched."""
        session = self._session
        if session is None:
            return
        now_ns = self._began_ns = self._clock()
        if now_ns < self._rests_until_ns and session.words[ROOM] == self._rests_with_room:
            return
        if session is not self._scheduled:
            self._start(session, now_ns)
        elif now_ns - self._compared_ns >= COMPARED_NS:
            self._compared_ns = now_ns
            self._look_into_growth(now_ns)
        if self._compiles:
            if self._searches < FIRST_SEARCHES or now_ns >= self._search_due_ns:
                self._measure_from_here(now_ns)
        elif (
            self._schedule.is_due(now_ns, _limit_bytes(session))
            or self._explained_bytes is None
            or self._operations.on
        ):
            self.watch()
        else:
            self._rests_until_ns = min(self._compared_ns + COMPARED_NS, self._schedule.due_ns)
            self._rests_with_room = session.words[ROOM]

    def take_in(self, inputs: tuple[Any, ...]) -> None:
        """With larger ones than any before, the iteration is watched."""
        if self._inputs is not None and self._inputs.outgrow(inputs):
            self.watch()

    def watch(self) -> None:
        """The iteration that begins is watched in any case. Called before an operation of it has run."""
        if self._session is None or self._watching or self._compiles:
            return
        self._rests_until_ns = 0
        if has_compiled():
            self._compiles = True
            self._operations.take_off()
            self._inputs = None
            self._measure_from_here(self._began_ns)
        elif self._operations.put_on():
            self._watching = True
            self._account.restart()

    def end(self) -> Optional[tuple[int, int]]:
        """(bytes held, the most since `begin`) of this iteration or of watched ones before; None where there is nothing to tell."""
        if self._watching:
            return self._end_watched()
        if self._measured_from is not None:
            return self._end_measured(*self._measured_from)
        now_ns = self._clock()
        self._plain_ns = now_ns - self._began_ns
        if now_ns - self._told_ns < TOLD_NS:
            return None
        self._told_ns = now_ns
        return self._known

    def look(self) -> tuple[int, int]:
        """(bytes held, the most held since the last look), in an iteration that is watched."""
        return self._account.look()

    def moved(self, storages: list[Any]) -> Optional[int]:
        """Books storages anew that were emptied or filled. Called while the thread that trains waits for that."""
        if self._scheduled is None:
            return None
        for storage in storages:
            self._account.book(storage)
        return self._account.settle()

    def settle(self) -> None:
        """A CPU has done its work when the call returns, and its memory is given back at once."""

    def forget(self) -> None:
        """In a forked child: watch no longer."""
        self._session = self._scheduled = self._inputs = None
        self._operations.take_off()
        self._account.limit = 1 << 62

    def _start(self, session: Session, now_ns: int) -> None:
        """The first iteration with this session."""
        first = self._scheduled is None
        if first:
            self._inputs = InputSizes(self._torch)
        self._scheduled = session
        self._schedule = WatchSchedule()
        try:
            if first:
                self._search(now_ns, "what the script had before its first iteration")
        finally:
            try:
                self._resident.restart()
                self._explained_bytes = self._resident.highest_bytes()
            except OSError as error:
                log.debug("every iteration is watched: %s", error)

    def _look_into_growth(self, now_ns: int) -> None:
        """What was made where nothing was watched shows in resident memory: searches for it, and sees to it that what follows is watched."""
        if self._explained_bytes is None:
            return
        allowed_bytes = max(LEAST_GROWTH_BYTES, self._account.held // GROWTH_DIVISOR)
        highest_bytes = self._resident.highest_bytes()
        if self._operations.on:
            self._explained_bytes = max(self._explained_bytes, highest_bytes)
        elif highest_bytes > self._explained_bytes + allowed_bytes:
            self._explained_bytes = highest_bytes
            self._schedule.grown()
            self._search(now_ns, "what the script did since")
            return
        if now_ns >= self._search_due_ns and self._schedule.is_due_by_time(now_ns):
            grown_bytes = self._resident.bytes_now() - self._searched_resident_bytes
            if grown_bytes > allowed_bytes:
                self._search(now_ns, "what the script did since")

    def _search(self, now_ns: int, what: str) -> None:
        """Books all tensors that Python knows: those made where nothing was watched are among them."""
        self._searches += 1
        try:
            for storage in cpu_storages(self._torch):
                self._book(storage, what)
        finally:
            done_ns = self._clock()
            self._search_due_ns = done_ns + SEARCH_RATIO * (done_ns - now_ns)
            self._searched_resident_bytes = self._resident.bytes_now()

    def _measure_from_here(self, now_ns: int) -> None:
        self._search(now_ns, "what the script did since")
        if self._explained_bytes is not None:
            self._resident.restart()
            self._measured_from = self._account.settle(), self._searched_resident_bytes

    def _end_measured(self, held_bytes: int, resident_bytes: int) -> Optional[tuple[int, int]]:
        self._measured_from = None
        highest_bytes = held_bytes + max(0, self._resident.highest_bytes() - resident_bytes)
        self._search(self._clock(), "what the script did in it")
        held_bytes = self._account.settle()
        self._known = held_bytes, max(held_bytes, highest_bytes)
        return self._known

    def _end_watched(self) -> Optional[tuple[int, int]]:
        self._watching = False
        session, schedule = self._session, self._schedule
        found = self._account.settle(), self._account.highest
        now_ns = self._clock()
        spent_ns = now_ns - self._began_ns
        schedule.watched(now_ns, max(0, spent_ns - (self._plain_ns or spent_ns // 2)), found[1])
        if self._explained_bytes is not None:
            self._explained_bytes = max(self._explained_bytes, self._resident.highest_bytes())
            if session is None or not schedule.goes_on(_limit_bytes(session)):
                self._operations.take_off()
        if not schedule.is_brief:
            self._known = found
            return found
        if schedule.is_first_of_two or self._known is None:
            self._known = found
        else:
            self._known = max(found[0], self._known[0]), max(found[1], self._known[1])
        return None  # its time is not the script's own

    def _book(self, storage: Any, what: Any) -> None:
        account, session = self._account, self._session
        if storage is None or session is None:
            return
        account.limit = _limit_bytes(session)
        highest_bytes = account.highest
        refused_bytes = account.book(storage)
        if account.highest > highest_bytes:
            session.words[HIGHEST_BYTES] = account.highest
        if refused_bytes:
            raise out_of_memory_error(self._torch)(self._refusal(session, refused_bytes, str(what)))

    def _refusal(self, session: Session, wanted_bytes: int, what: str) -> str:
        held_bytes, room_bytes = self._account.held, session.words[ROOM]
        if held_bytes + wanted_bytes <= session.welcome.quota_bytes:
            return full_message(session.welcome.gpu, room_bytes, held_bytes, wanted_bytes, what)
        return report_overrun(session, held_bytes, wanted_bytes, what)


def _limit_bytes(session: Session) -> int:
    quota_bytes, room_bytes = session.welcome.quota_bytes, session.words[ROOM]
    return min(quota_bytes, room_bytes) if room_bytes else quota_bytes
