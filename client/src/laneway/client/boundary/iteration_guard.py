"""The guard of every iteration: acquires a turn at its begin, and returns the turn at its end if others want
it.

This is the hot path. Without contention a boundary reads two words of the shared page and sends nothing.
`session.py` explains why no lock is needed.
"""

from __future__ import annotations

import threading
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final, Optional, Union

from laneway.client.memory.meter import NoMeter
from laneway.client.offload.offloader import Offloader
from laneway.client.reporting.profile import Profiler
from laneway.client.reporting.progress import Progress
from laneway.client.session.keepalive import Keepalive
from laneway.client.session.null_session import FREE_TURN, NullSession
from laneway.client.session.shared_page import (
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

if TYPE_CHECKING:
    from laneway.client.boundary.stop_signal import StopSignal
    from laneway.client.memory.meter import MemoryMeter
    from laneway.client.session.pause import Gang
    from laneway.client.session.session import Session

MAX_WAIT_SECONDS: Final = 1.0
"""How often a thread that waits for a turn checks whether another thread has begun an iteration."""


class IterationGuard:
    """The guard of a process. The training thread calls `begin` and `end`."""

    def __init__(
        self, stop: StopSignal, agent_timeout_seconds: float = 0.0, agent_expected: bool = True
    ) -> None:
        """Creates a guard that grants every turn.

        Args:
            stop: the state of SIGTERM.
            agent_timeout_seconds: how long to wait for a silent agent, and then for a lost agent's return.
            agent_expected: whether there can be an agent.
        """
        self.session: Union[Session, NullSession] = NullSession()
        # Both the waiting and the listening thread may find that a session has ended. A signal handler may
        # interrupt either.
        self._session_lock = threading.RLock()
        self.meter: MemoryMeter = NoMeter()
        self.profiler = Profiler()
        self.progress = Progress(self.profiler, agent_expected)
        self.offload = Offloader(self._send_message, self._on_memory_moved)
        self.gang: Optional[Gang] = None
        self.iterations = 0
        self.busy_ns = 0
        self.data_ns = 0
        """Time between iterations since the first one, without waits for a turn."""
        self.open_blocks = 0
        """The number of open `iteration()` blocks. While there are any, the framework's hooks have no effect."""
        self._stop = stop
        self._agent_timeout_seconds = agent_timeout_seconds
        self._held_bytes = 0
        self.iteration_session: Optional[Union[Session, NullSession]] = None
        """The session in which the current iteration began; None between iterations."""
        self._turn = 0
        self._began_ns = 0
        self._ended_ns = 0
        self._waited_ns = 0
        """Time spent waiting for the turn of the next iteration."""
        self._handles_stop = False

    @property
    def holds_turn(self) -> bool:
        """Whether the current iteration is covered by a turn of the agent, or was until the connection was
        lost."""
        session = self.iteration_session
        return session is not None and session.has_agent and session.holds(self._turn)

    def begin(self) -> None:
        """Begins an iteration once this process has the turn. Does nothing inside an iteration.

        Raises:
            SystemExit: a SIGTERM came and the script has no handler of its own.
            BaseException: whatever the script's handler raises, if it has one.
        """
        if self.iteration_session is not None:
            return
        stop = self._stop
        if self._handles_stop:
            stop.wrap_handler()
        session = self.session
        try:
            turn = session.idle_turn.pop()
        except IndexError:
            turn = 0
        if not turn or session.words[TURN] != turn or stop.pending:
            wait_began_ns = monotonic_ns()
            session, turn = self._wait_for_turn(session, turn)
            if self.iteration_session is not None:
                return  # another thread has begun an iteration, which covers this one as well
            self._waited_ns += monotonic_ns() - wait_began_ns
        self.iteration_session = session
        self._turn = turn
        stop.in_iteration = True
        session.words[INSIDE] = 1
        self._began_ns = monotonic_ns()
        try:
            self.meter.begin()
        except BaseException:
            self.end(trained=False)
            raise

    def end(self, trained: bool = True) -> None:
        """Ends the iteration; this is the boundary. Does nothing outside an iteration.

        Args:
            trained: whether it counts as an iteration; an evaluation does not.
        """
        session = self.iteration_session
        if session is None:
            return
        now_ns = monotonic_ns()
        words = session.words
        spent_ns = now_ns - self._began_ns
        self.busy_ns += spent_ns
        words[BUSY_NS] = self.busy_ns
        words[BOUNDARY_NS] = now_ns
        data_ns = self._began_ns - self._ended_ns - self._waited_ns
        if data_ns < 0 or not self.iterations:  # the time before the first iteration is start-up
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
            self._record_memory(memory, spent_ns, now_ns, trained, data_ns)
        self.iteration_session = None
        stop = self._stop
        stop.boundary_ns = now_ns
        stop.in_iteration = False
        words[INSIDE] = 0
        session.idle_turn.append(self._turn)
        if 0 < words[YIELD] <= now_ns or words[PAUSED]:
            session.yield_turn()
        if session is not self.session:
            self._end_iteration_in(self.session, now_ns)
        if self.progress.pending:
            self.progress.send(self.session, now_ns)
        if stop.pending:
            stop.on_boundary()

    def attach(self, session: Session) -> None:
        """Takes over a new session. Called in the listening thread."""
        words = session.words
        words[ITERATIONS] = self.iterations
        words[BUSY_NS] = self.busy_ns
        words[DATA_NS] = self.data_ns
        words[HELD_BYTES] = self._held_bytes
        words[INSIDE] = self.iteration_session is not None
        session.before_release = self.meter.prepare_release
        session.free_memory = self.meter.free_memory
        session.on_order = self._on_order
        session.pause.gang = self.gang
        if session.settings.answers_ping:
            session.socket.keepalive = Keepalive(self._agent_timeout_seconds)
        self.offload.attach(session.settings.simulated)
        self.meter.attach(session)
        self._handles_stop = True
        with self._session_lock:
            before, self.session = self.session, session
        if self.iteration_session is None:
            # An iteration that ended a moment ago may not have seen this session.
            words[INSIDE] = 0
            session.iteration_ended()
        before.interrupt()
        self.progress.resend()
        profile = self.profiler.repeat(self.iterations)
        if profile is not None:
            session.send_message("profile", **profile.fields())

    def detach(self) -> None:
        """Continues without turns unless a session opens in time; the next one may already be open."""
        with self._session_lock:
            if self.session.has_agent and self.session.closed:
                self.session = NullSession(self._agent_timeout_seconds)

    def disable(self) -> None:
        """Ends turns, measurement and signal handling after an internal error."""
        self.iteration_session = None
        self._handles_stop = False
        self._stop.in_iteration = False
        self.meter = NoMeter()
        self.session = NullSession()

    def interrupt(self) -> None:
        """Wakes a thread that waits for a turn. Safe in a signal handler."""
        self.session.interrupt()

    def _wait_for_turn(
        self, session: Union[Session, NullSession], turn: int
    ) -> tuple[Union[Session, NullSession], int]:
        """Returns the session and its turn, or a free turn when the script was asked to stop and has no time
        left to wait.

        Memory may be moved to the host during the wait. It is always back before the script continues.
        """
        if turn:
            session.idle_turn.append(turn)  # a stop may take long, and the turn is not in use meanwhile
        try:
            self._stop.deliver()
            return self._wait()
        finally:
            self.offload.restore_memory()

    def _wait(self) -> tuple[Union[Session, NullSession], int]:
        while True:
            session = self.session
            if session.has_agent:
                self.offload.execute_orders()
            gang = self._stop.gang
            if gang is not None and self.iteration_session is None:
                gang.wait_at(self.iterations)
            turn = session.acquire(self._get_timeout) or 0
            if turn and gang is not None and self.iteration_session is None:
                self._stop.sync_with_gang(gang)
                if self._stop.pending:
                    session.idle_turn.append(turn)
                    turn = 0
            if turn:
                return session, turn
            if self._stop.pending:
                self._stop.deliver()
            elif self.iteration_session is not None or self._seconds_left() <= 0:
                return NullSession(), FREE_TURN
            elif session.closed and self.session is session:
                self.detach()

    def _get_timeout(self) -> float:
        gang = self._stop.gang
        if gang is not None and self.iteration_session is None:
            self._stop.sync_with_gang(gang, continuing=False)
        if (
            self._stop.pending
            or self.iteration_session is not None
            or (self.offload.pending and self.session.has_agent)
        ):
            return 0.0
        return min(MAX_WAIT_SECONDS, self._seconds_left())

    def _seconds_left(self) -> float:
        left = self._stop.seconds_left()
        return MAX_WAIT_SECONDS if left is None else left

    def _on_order(self, kind: str) -> None:
        self.offload.on_order(kind)
        self.session.interrupt()

    def _send_message(self, kind: str, **fields: Any) -> None:
        self.session.send_message(kind, **fields)

    def _on_memory_moved(self, held_bytes: int) -> None:
        self._held_bytes = held_bytes
        words = self.session.words
        words[HELD_BYTES] = words[HIGHEST_BYTES] = held_bytes

    def _end_iteration_in(self, session: Union[Session, NullSession], now_ns: int) -> None:
        """Ends the iteration in the current session as well, if it began in an earlier one."""
        words = session.words
        words[BUSY_NS] = self.busy_ns
        words[DATA_NS] = self.data_ns
        words[BOUNDARY_NS] = now_ns
        words[ITERATIONS] = self.iterations
        words[INSIDE] = 0
        session.iteration_ended()

    def _record_memory(
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
            session.send_message("profile", **profile.fields())
