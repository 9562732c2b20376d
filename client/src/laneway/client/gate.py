"""The gate through which every iteration passes: it begins with a turn, and its end is the boundary where the turn may go.

This is the hot path: without contention a boundary reads two words of the page and sends nothing. `session.py` says why no
lock is needed.
"""

from __future__ import annotations

import threading
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final, Optional, Union

from laneway.client.detached import FREE_TURN, Detached
from laneway.client.memory_meter import NoMeter
from laneway.client.offload import Offload
from laneway.client.page import (
    BOUNDARY_NS,
    BUSY_NS,
    DATA_NS,
    HELD_BYTES,
    HIGHEST_BYTES,
    INSIDE,
    ITERATIONS,
    PAUSED,
    TURN,
    YIELD,
)
from laneway.client.profile import Profiler
from laneway.client.progress import Progress
from laneway.client.sign_of_life import SignOfLife

if TYPE_CHECKING:
    from laneway.client.gang import Gang
    from laneway.client.memory_meter import MemoryMeter
    from laneway.client.session import Session
    from laneway.client.stop_signal import StopSignal

LONGEST_WAIT_SECONDS: Final = 1.0
"""A thread that waits for a turn looks at least so often whether another thread of the process has begun an iteration meanwhile."""


class IterationGate:
    """One a process. `begin` and `end` are called in the thread that trains."""

    def __init__(self, stop: StopSignal, agent_timeout_seconds: float = 0.0, has_agent: bool = True) -> None:
        """Makes an open gate.

        Args:
            stop: what became of SIGTERM.
            agent_timeout_seconds: how long an agent that was lost is waited for, and before that one that gives no sign of life.
            has_agent: whether there can be one.
        """
        self.session: Union[Session, Detached] = Detached()
        # The thread that waits and the one that listens may both find that a session is over. A signal's handler may come in between.
        self._switching = threading.RLock()
        self.meter: MemoryMeter = NoMeter()
        self.profiler = Profiler()
        self.progress = Progress(self.profiler, has_agent)
        self.offload = Offload(self._tell, self._note_held)
        self.gang: Optional[Gang] = None
        self.iterations = 0
        self.busy_ns = 0
        self.data_ns = 0
        """Time between iterations that was no wait for a turn, since the first one."""
        self.explicit = 0
        """How many `iteration()` blocks are open; while there are any, the framework's hooks do not count."""
        self._stop = stop
        self._agent_timeout_seconds = agent_timeout_seconds
        self._held_bytes = 0
        self.inside: Optional[Union[Session, Detached]] = None
        """The session in which the iteration began that goes on; None between two."""
        self._turn = 0
        self._began_ns = 0
        self._ended_ns = 0
        self._waited_ns = 0
        """For the turn of the iteration that begins."""
        self._watches_stop = False

    @property
    def holds_turn(self) -> bool:
        """Whether an iteration goes on that a turn of the agent covers, or did until the connection was lost."""
        session = self.inside
        return session is not None and session.contested and session.words[TURN] == self._turn

    def begin(self) -> None:
        """Begins an iteration, once this process has the turn; nothing happens when one goes on already.

        Raises:
            SystemExit: a SIGTERM came and the script has no handler of its own.
            BaseException: whatever the script's handler raises, if it has one.
        """
        if self.inside is not None:
            return
        stop = self._stop
        if self._watches_stop:
            stop.adopt()
        session = self.session
        try:
            turn = session.box.pop()
        except IndexError:
            turn = 0
        if not turn or session.words[TURN] != turn or stop.pending:
            came_ns = monotonic_ns()
            session, turn = self._wait_for_turn(session, turn)
            if self.inside is not None:
                return  # another thread's iteration began meanwhile: this one goes along with it
            self._waited_ns += monotonic_ns() - came_ns
        self.inside = session
        self._turn = turn
        stop.inside = True
        session.words[INSIDE] = 1
        self._began_ns = monotonic_ns()
        try:
            self.meter.begin()
        except BaseException:
            self.end(trained=False)
            raise

    def end(self, trained: bool = True) -> None:
        """Ends the iteration: the boundary. Nothing happens when none goes on.

        Args:
            trained: whether it counts as an iteration; one that only evaluates does not.
        """
        session = self.inside
        if session is None:
            return
        now_ns = monotonic_ns()
        words = session.words
        spent_ns = now_ns - self._began_ns
        self.busy_ns += spent_ns
        words[BUSY_NS] = self.busy_ns
        words[BOUNDARY_NS] = now_ns
        data_ns = self._began_ns - self._ended_ns - self._waited_ns
        if data_ns < 0 or not self.iterations:  # before the first one the script starts
            data_ns = 0
        self.data_ns += data_ns
        words[DATA_NS] = self.data_ns
        self._ended_ns = now_ns
        self._waited_ns = 0
        if trained:
            self.iterations += 1
            words[ITERATIONS] = self.iterations
        memory = self.meter.end()
        if memory is not None:
            self._take_note(memory, spent_ns, now_ns, trained, data_ns)
        self.inside = None
        stop = self._stop
        stop.boundary_ns = now_ns
        stop.inside = False
        words[INSIDE] = 0
        session.box.append(self._turn)
        if 0 < words[YIELD] <= now_ns or words[PAUSED]:
            session.give_way()
        if session is not self.session:
            self._end_in(self.session, now_ns)
        if self.progress.pending:
            self.progress.send(self.session, now_ns)
        if stop.pending:
            stop.boundary()

    def attach(self, session: Session) -> None:
        """A session is open. Called in the listening thread."""
        words = session.words
        words[ITERATIONS] = self.iterations
        words[BUSY_NS] = self.busy_ns
        words[DATA_NS] = self.data_ns
        words[HELD_BYTES] = self._held_bytes
        words[INSIDE] = self.inside is not None
        session.before_release = self.meter.settle
        session.on_order = self._ordered
        session.gang = self.gang
        if session.welcome.answers_ping:
            session.sign_of_life = SignOfLife(self._agent_timeout_seconds)
        self.offload.attach(session.welcome.simulated)
        self.meter.attach(session)
        self._watches_stop = True
        with self._switching:
            before, self.session = self.session, session
        if self.inside is None:
            # The iteration that went on a moment ago may have ended before its end could see this session.
            words[INSIDE] = 0
            session.iteration_ended()
        before.interrupt()
        self.progress.renew()
        profile = self.profiler.again(self.iterations)
        if profile is not None:
            session.tell("profile", **profile.fields())

    def detach(self) -> None:
        """There is no session any more: on without turns, if there is none again in time. The next one may be there already."""
        with self._switching:
            if self.session.contested and self.session.closed:
                self.session = Detached(self._agent_timeout_seconds)

    def open_for_good(self) -> None:
        """After a fault of the client: no turns, no measuring, no signals any more."""
        self.inside = None
        self._watches_stop = False
        self._stop.inside = False
        self.meter = NoMeter()
        self.session = Detached()

    def interrupt(self) -> None:
        """Wakes a thread that waits for a turn; safe in a signal handler."""
        self.session.interrupt()

    def _wait_for_turn(
        self, session: Union[Session, Detached], turn: int
    ) -> tuple[Union[Session, Detached], int]:
        """Returns the session and its turn; also without one when the script was asked to stop and has no time left to wait.

        Memory may be moved to the host meanwhile. However this ends, it is back before the script goes on.
        """
        if turn:
            session.box.append(turn)  # a stop may take long: the turn is not in use meanwhile
        try:
            self._stop.deliver()
            return self._wait()
        finally:
            self.offload.bring_back()

    def _wait(self) -> tuple[Union[Session, Detached], int]:
        while True:
            session = self.session
            if session.contested:
                self.offload.carry_out()
            gang = self._stop.gang
            if gang is not None and self.inside is None:
                gang.stand(self.iterations)
            turn = session.acquire(self._patience) or 0
            if turn and gang is not None and self.inside is None:
                self._stop.meet(gang)
                if self._stop.pending:
                    session.box.append(turn)
                    turn = 0
            if turn:
                return session, turn
            if self._stop.pending:
                self._stop.deliver()
            elif self.inside is not None or self._seconds_left() <= 0:
                return Detached(), FREE_TURN
            elif session.closed and self.session is session:
                self.detach()

    def _patience(self) -> float:
        gang = self._stop.gang
        if gang is not None and self.inside is None:
            self._stop.meet(gang, setting_out=False)
        if self._stop.pending or self.inside is not None or (self.offload.pending and self.session.contested):
            return 0.0
        return min(LONGEST_WAIT_SECONDS, self._seconds_left())

    def _seconds_left(self) -> float:
        left = self._stop.seconds_left()
        return LONGEST_WAIT_SECONDS if left is None else left

    def _ordered(self, kind: str) -> None:
        self.offload.ordered(kind)
        self.session.interrupt()

    def _tell(self, kind: str, **fields: Any) -> None:
        self.session.tell(kind, **fields)

    def _note_held(self, held_bytes: int) -> None:
        self._held_bytes = held_bytes
        words = self.session.words
        words[HELD_BYTES] = words[HIGHEST_BYTES] = held_bytes

    def _end_in(self, session: Union[Session, Detached], now_ns: int) -> None:
        """The iteration that ends began in an earlier session: ends it in this one, too."""
        words = session.words
        words[BUSY_NS] = self.busy_ns
        words[DATA_NS] = self.data_ns
        words[BOUNDARY_NS] = now_ns
        words[ITERATIONS] = self.iterations
        words[INSIDE] = 0
        session.iteration_ended()

    def _take_note(
        self, memory: tuple[int, int], spent_ns: int, now_ns: int, trained: bool, data_ns: int
    ) -> None:
        held_bytes, highest_bytes = memory
        self._held_bytes = held_bytes
        session = self.session
        words = session.words
        words[HELD_BYTES] = words[HIGHEST_BYTES] = held_bytes
        profile = self.profiler.observe(
            held_bytes, highest_bytes, spent_ns, now_ns, trained, self.iterations, data_ns
        )
        if profile is not None:
            session.tell("profile", **profile.fields())
