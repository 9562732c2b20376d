"""One session with the agent: the messages of docs/contracts.md, and the turn.

**The turn is passed between threads in `idle_turn`**, a deque whose `append` and `pop` are atomic. It holds
the number of the granted turn while no thread uses the turn. The thread that pops the number owns the turn:

- the training thread pops it before an iteration and appends it again after the iteration;
- a thread that releases the turn pops it and sends `release`.

So the turn is never released during an iteration, and no lock is needed. The listening thread answers a
`yield` that arrives between two iterations. During an iteration it finds `idle_turn` empty; the training
thread then sees the page's yield word at the boundary. The agent writes that word before it sends the
message. If the training thread misses the word, the message therefore arrives when `idle_turn` is filled
again. One of the two threads always answers.

**A turn may begin without a message.** The page can say that a wake announces the next turn
(`direct_wakes.py`). The waiting thread then takes that turn as soon as the process before it signals the
wake, and notes its number on the page. The agent confirms it there, or revokes it.

**The listening thread reads the socket**, except while the training thread waits for a grant. Then the
training thread reads, so that no other thread has to be woken between the agent's grant and the iteration.
"""

from __future__ import annotations

import logging
import select
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Optional, Protocol

from laneway.client.session.channel import Channel, ChannelClosedError, encode, encode_release
from laneway.client.session.direct_wakes import DirectWakes
from laneway.client.session.keepalive import Keepalive
from laneway.client.session.shared_page import (
    ARMED_TURN,
    ARMED_WAKE,
    BUSY_NS,
    INSIDE,
    ITERATIONS,
    KEEPS_MEMORY,
    KEPT_MEMORY,
    PAUSED,
    SUCCESSOR,
    TAKEN,
    TAKEN_NS,
    TURN,
    YIELD,
)
from laneway.client.session.wakeup import WakeupPipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.session.settings import SessionSettings

log = logging.getLogger("laneway.client")

REQUEST: Final = encode("request")
PAUSED_ANSWER: Final = encode("paused")
PING: Final = encode("ping")
IMMEDIATE_NS: Final = 1_000_000
"""A turn requested within a millisecond of the last release could have been requested with that release."""
RELEASE_POLL_SECONDS: Final = 0.01
"""How long a thread waits before it checks again whether another thread has sent its release."""


class Gang(Protocol):
    """The other processes of a gang."""

    def agree(self, session: Session) -> bool:
        """Finds out, in another thread, after which iteration the session pauses, and calls
        `Session.pause_after`.

        Returns:
            False, without doing anything, where this process is on its own.
        """


class Session:
    """An open session, created by the handshake (`laneway.client.session.handshake`)."""

    has_agent = True
    """The agent grants the turns; other processes may want them."""

    def __init__(
        self, channel: Channel, words: memoryview, settings: SessionSettings, *, covers_iteration: bool
    ) -> None:
        """Takes over a connection after its handshake.

        Args:
            channel: the connection.
            words: the shared page.
            settings: the agent's answer.
            covers_iteration: the current iteration began with an earlier session's turn. If the agent grants
                this session that turn, it becomes idle at the end of the iteration (`iteration_ended`).
        """
        self.words = words
        self.idle_turn: deque[int] = deque()
        self.settings = settings
        self.closed = False
        self.before_release: Callable[[], None] = _nothing
        """Waits for the device's work before another job gets the lane."""
        self.free_memory: Callable[[], None] = _nothing
        """Frees cached memory before another job of the lane uses it."""
        self.on_order: Callable[[str], None] = _nothing
        """Called with an order to move memory, in the thread that reads it."""
        self._channel = channel
        self._reading = threading.Lock()
        self._epoll = select.epoll()
        self._epoll.register(channel, select.EPOLLIN)
        self._wakeup = WakeupPipe()
        """Wakes the thread that waits for a turn."""
        self._listener_wakeup: Optional[WakeupPipe] = None
        self._wakes = DirectWakes()
        self._wakes.watch(channel.fileno())
        self._wakes.watch(self._wakeup.fileno())
        self.keepalive = Keepalive()
        """Detects an agent that hangs; active where the agent answers pings."""
        self._waiting_thread = 0
        self._requested = covers_iteration
        """A grant is expected: it was requested, or hello reported a held turn, which the agent answers with
        a grant or a revocation."""
        self._releasing: deque[None] = deque()
        """Not empty from when a thread takes the turn to release it until its release is sent."""
        self._released_ns = 0
        self._wants_next_turn = False
        """The last turn was requested right after a release, so the next release also requests the next turn."""
        self._held_turn = 0
        self._was_granted = False
        """This session has held a turn, so a revocation is not of an earlier session's turn."""
        self._iterations_at_grant = 0
        self._busy_ns_at_grant = 0
        self._unanswered_pauses: deque[None] = deque()
        self._pause_after: Optional[int] = None
        """The process pauses once this many iterations are done; None: no pause."""
        self._pause_is_final = False
        """`_pause_after` will not change any more: the gang has agreed, or there is no gang."""
        self.gang: Optional[Gang] = None
        """The processes that this one waits for inside its iterations, if it is one of several."""
        self._revoked_turn = 0
        """A turn that was revoked within its iteration. The lane waits until it is released at the boundary."""
        self._awaits_answer = covers_iteration
        """The agent has not answered yet that hello reported a held turn."""
        self._covers_iteration = covers_iteration
        self._carried_turn: deque[int] = deque()
        """The turn while it covers an iteration of an earlier session."""

    # --- the training thread ---

    def acquire(self, get_timeout: Callable[[], Optional[float]]) -> Optional[int]:
        """Waits for a turn and takes it out of `idle_turn`; returns None if the session has ended or the
        timeout has expired.

        Args:
            get_timeout: returns how many more seconds to wait; None for no limit, 0 or less to give up.
                Called again after `interrupt`.
        """
        self._wants_next_turn = time.monotonic_ns() - self._released_ns < IMMEDIATE_NS
        self._waiting_thread = threading.get_ident()
        self.keepalive.start_waiting()
        try:
            self._epoll.modify(self._channel, 0)
            while not self.closed:
                # At a possible pause point, wait until the gang has decided whether it pauses here.
                frozen = self._pause_after is not None and not self._pause_is_final and self._is_frozen()
                # Read before `idle_turn`: if the listening thread reads a grant in between, it fills
                # `idle_turn` and wakes this thread.
                requested = self._requested
                turn = 0 if frozen else self._take_turn()
                if turn:
                    return turn
                seconds = get_timeout()
                if seconds is not None and seconds <= 0:
                    return None
                if self._releasing:
                    # A request that overtook the release would be answered with the turn that is being
                    # released.
                    seconds = RELEASE_POLL_SECONDS if seconds is None else min(seconds, RELEASE_POLL_SECONDS)
                elif not requested and not frozen:
                    self._requested = True
                    self._send(REQUEST)
                self._wait_for_message(seconds)
        except (OSError, ValueError) as error:
            self.close(f"waiting failed: {error}")
        finally:
            self._waiting_thread = 0
            self._listen_again()
        return None

    def yield_turn(self) -> None:
        """Releases the turn or pauses, if the page asks for it. Called at a boundary, with the turn idle
        again."""
        frozen = self._is_frozen()
        if self.words[PAUSED] and not frozen and not self._is_yield_due():
            return  # the gang pauses at a later boundary
        self._return_turn(self._wants_next_turn and self.settings.release_again and not frozen)
        if frozen and self._pause_is_final:
            self._answer_pause()

    def iteration_ended(self) -> None:
        """Ends the iteration that began with an earlier session's turn. May be called twice, and from any
        thread."""
        self._covers_iteration = False
        try:
            self.idle_turn.append(self._carried_turn.pop())
        except IndexError:
            return
        if self._is_yield_due() or self.words[PAUSED]:
            self.yield_turn()

    def interrupt(self) -> None:
        """Makes a waiting `acquire` call `get_timeout` again. Safe in a signal handler."""
        self._wakeup.wake()

    # --- the listening thread ---

    def listen(self, wakeup: WakeupPipe, get_timeout: Callable[[], Optional[float]]) -> None:
        """Answers the agent until the session ends.

        Args:
            wakeup: wakes the listener, which then calls `get_timeout` again.
            get_timeout: called before each wait; returns how long to wait at most, None for no limit.
        """
        try:
            self._epoll.register(wakeup, select.EPOLLIN)
            self._listener_wakeup = wakeup
            while not self.closed:
                seconds = get_timeout()
                self._epoll.poll(-1 if seconds is None else max(0.0, seconds))
                wakeup.clear()
                self.pump()
        except (OSError, ValueError) as error:
            self.close(f"listening failed: {error}")

    # --- any thread ---

    def pump(self, most: Optional[int] = None) -> None:
        """Handles the messages that have arrived, at most `most` of them."""
        acted_on = 0
        with self._reading:
            try:
                while most is None or acted_on < most:
                    message = self._channel.receive()
                    if message is None:
                        return
                    self.keepalive.on_packet()
                    self._handle_message(message)
                    acted_on += 1
            except ChannelClosedError as closed:
                self.close(str(closed))

    def send_message(self, kind: str, **fields: Any) -> None:
        """Sends a message, unless the session has ended."""
        self._send(encode(kind, **fields))

    def leave(self) -> None:
        """Releases the turn if it is idle, sends goodbye, and closes the session."""
        self._return_turn()
        self._send(encode("goodbye"))
        self.close("the process ends")

    def close(self, reason: str) -> None:
        """Ends the session; threads that wait in it return."""
        if not self.closed:
            log.debug("session %s has ended: %s", self.settings.session, reason)
            self.closed = True
        self._channel.close()
        # Closing a descriptor removes it from an epoll set without waking the threads that wait.
        self._wakeup.wake()
        if self._listener_wakeup is not None:
            self._listener_wakeup.wake()

    def forget(self) -> None:
        """Closes the inherited descriptors in a forked child; the parent's session continues."""
        self.closed = True
        self._channel.forget()
        self._epoll.close()
        self._wakes.close()
        self._wakeup.close()

    # --- internals ---

    def _wait_for_message(self, seconds: Optional[float]) -> None:
        """Handles the agent's next message or a wakeup while a turn is awaited; closes the session if the
        agent hangs."""
        keepalive = self.keepalive
        if keepalive.should_ping():
            self._send(PING)
        seconds = keepalive.until_ping(seconds)
        for descriptor in self._wakes.poll(seconds):
            wake = self._wakes.wake_of(descriptor)
            if wake:
                self._on_wake(wake, descriptor)
            elif descriptor == self._wakeup.fileno():
                self._wakeup.clear()
            else:
                # Messages after a grant are left to the listening thread, so that the iteration begins first.
                self.pump(most=1)
        if keepalive.has_timed_out():
            # If this process itself was suspended, the answer may be waiting in the socket.
            self.pump(most=1)
            if keepalive.has_timed_out():
                self.close("the agent did not answer pings")

    def _handle_message(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "grant":
            self._on_grant(_turn_of(message, 1))
        elif kind == "yield":
            self._return_turn()
        elif kind == "revoke":
            self._on_revoke(_turn_of(message, 0), str(message.get("reason", "")))
        elif kind == "pause":
            self._on_pause()
        elif kind == "resume":
            self._unanswered_pauses.clear()
            self._pause_after = None
            self._wakeup.wake()
        elif kind == "free":
            self._on_free()
        elif kind == "wake":
            if "descriptor" in message:  # it is missing if the process has too many
                self._wakes.add(message["wake"], message["descriptor"], signals=message["signals"])
        elif kind == "forget_wake":
            self._wakes.remove(message["wake"])
        elif kind in ("offload", "restore"):
            self.on_order(kind)
        elif kind == "error":
            log.warning("the agent ended the session: %s", message.get("reason", "no reason given"))

    def _on_grant(self, turn: int) -> None:
        self._requested = self._awaits_answer = False
        if turn == self._held_turn:
            return  # a duplicate grant: counting it as a second turn would release the turn during an iteration
        self._iterations_at_grant = self.words[ITERATIONS]
        self._busy_ns_at_grant = self.words[BUSY_NS]
        self._held_turn = turn
        self._was_granted = True
        if self._covers_iteration:
            self._carried_turn.append(turn)
            if not self._covers_iteration:
                self.iteration_ended()  # the iteration ended between the two checks
            return
        self.idle_turn.append(turn)
        if not self._waiting_thread:
            self._wants_next_turn = False
        elif self._waiting_thread != threading.get_ident():
            self._wakeup.wake()

    def _on_wake(self, wake: int, descriptor: int) -> None:
        """Takes the turn that the page says a signalled wake announces.

        The page is read again after the number is noted: the agent first withdraws a turn and then looks
        whether it was taken.
        """
        words = self.words
        with self._reading:
            turn = words[ARMED_TURN]
            if not turn or words[ARMED_WAKE] != wake or self._held_turn:
                self._wakes.reject(wake, descriptor)
                return
            words[TAKEN_NS] = time.monotonic_ns()
            words[TAKEN] = turn
            if turn != words[ARMED_TURN] and turn != words[TURN]:
                words[TAKEN] = 0
                return
            self._wakes.accept(descriptor)
            self._on_grant(turn)

    def holds(self, turn: int) -> bool:
        """Returns whether the page confirms a turn, or it was taken and the agent has not answered yet."""
        words = self.words
        return words[TURN] == turn or words[TAKEN] == turn == words[ARMED_TURN]

    def _on_revoke(self, turn: int, reason: str) -> None:
        """Gives a turn up. Unless it is 0, the agent waits for its release: at the boundary if an iteration
        uses it, else now."""
        log.debug("turn %d was revoked: %s", turn, reason)
        if self._awaits_answer:
            self._awaits_answer = self._requested = False
        if self._covers_iteration:
            self._revoked_turn = turn
            self._carried_turn.clear()
            if turn:
                self._carried_turn.append(turn)
            else:
                self._covers_iteration = False
        elif turn == self._held_turn:
            self._revoked_turn = turn
            self._return_turn()
            self._held_turn = 0
        elif turn and not self._was_granted and not self.words[INSIDE]:
            self._release(turn, again=False)  # a turn of an earlier connection, whose iteration has ended

    def _on_pause(self) -> None:
        self._unanswered_pauses.append(None)
        if self.gang is None or not self.gang.agree(self):
            self.pause_after(0, final=True)

    @property
    def iterations(self) -> int:
        """Iterations completed by the process."""
        return self.words[ITERATIONS]

    @property
    def is_pausing(self) -> bool:
        """Whether a pause was requested and neither answered nor cancelled."""
        return bool(self._unanswered_pauses) and not self.closed

    @property
    def is_paused(self) -> bool:
        """Whether a pause was answered and has not ended."""
        return self._pause_after is not None and not self.is_pausing and not self.closed

    def pause_after(self, iterations: int, *, final: bool) -> None:
        """Allows no new iteration once `iterations` are done. Callable from any thread; the number may grow
        until it is final.

        Args:
            iterations: the number of iterations after which the process pauses.
            final: the process certainly stops there, so the pause is answered.
        """
        if not self.is_pausing:
            return
        self._pause_is_final = final
        self._pause_after = iterations
        self._wakeup.wake()
        if not self._is_frozen():
            return
        self._return_turn()
        # If the turn is in use, an iteration is running, and its end will answer.
        if final and not self._held_turn and not self.words[INSIDE]:
            self._answer_pause()

    def _is_yield_due(self) -> bool:
        return 0 < self.words[YIELD] <= time.monotonic_ns()

    def _is_frozen(self) -> bool:
        """Whether the process is at its pause point, or possibly at it."""
        return bool(
            self.words[PAUSED]
            and self._pause_after is not None
            and self.words[ITERATIONS] >= self._pause_after
        )

    def _answer_pause(self) -> None:
        """Answers a pause once, whichever thread calls first."""
        try:
            self._unanswered_pauses.pop()
        except IndexError:
            return
        self._unanswered_pauses.clear()
        self._send(PAUSED_ANSWER)

    def _take_turn(self) -> int:
        """Takes the turn out of `idle_turn`; returns 0 if it is in use or no longer valid."""
        try:
            turn = self.idle_turn.pop()
        except IndexError:
            return 0
        if turn == self._held_turn and self.holds(turn):
            return turn
        if turn and turn in (self._held_turn, self._revoked_turn):
            # The page shows a revocation before its message arrives. The lane waits for the memory anyway.
            self._revoked_turn = 0
            self._release(turn, again=False)
        return 0

    def _return_turn(self, again: bool = False) -> None:
        """Releases the turn if it is idle, and requests the next one if `again`."""
        self._releasing.append(None)
        try:
            turn = self._take_turn()
            if turn:
                self._release(turn, again)
        finally:
            self._releasing.pop()
        if turn and self._waiting_thread not in (0, threading.get_ident()):
            self._wakeup.wake()

    def _release(self, turn: int, again: bool) -> None:
        self._prepare_device()
        if again:
            self._requested = True
        self._held_turn = 0
        self._hand_over()
        iterations = self.words[ITERATIONS] - self._iterations_at_grant
        gpu_seconds = (self.words[BUSY_NS] - self._busy_ns_at_grant) / 1e9
        self._send(encode_release(turn, iterations, gpu_seconds, again))
        self._released_ns = time.monotonic_ns()

    def _prepare_device(self) -> None:
        """Waits for the device and frees cached memory, unless no other job needs it: then the next iteration
        would only allocate it again."""
        keeps = self.words[KEEPS_MEMORY]
        try:
            self.before_release()
            if not keeps:
                self.free_memory()
        except Exception as fault:  # of the device, for example while a CUDA graph is captured; the lane must not wait for it
            log.debug("could not free memory before the release: %r", fault)
        self.words[KEPT_MEMORY] = 1 if keeps else 0

    def _on_free(self) -> None:
        """Frees memory that was kept at an earlier release. A turn that was granted since then, or whose
        iteration is still running, frees it with its own release."""
        if not self._held_turn and not self.words[INSIDE]:
            self._prepare_device()
            self._send(encode_release(0, 0, 0.0, again=False))

    def _hand_over(self) -> None:
        """Wakes the next holder, whose turn the agent has prepared. Signals that came so far are of earlier
        turns."""
        words = self.words
        words[TAKEN] = 0
        if words[SUCCESSOR]:
            self._wakes.signal(words[SUCCESSOR])
        self._wakes.discard()

    def _send(self, packet: bytes) -> None:
        if self.closed:
            return
        try:
            self._channel.send(packet)
        except ChannelClosedError as closed:
            self.close(str(closed))

    def _listen_again(self) -> None:
        try:
            self._epoll.modify(self._channel, select.EPOLLIN)
        except (OSError, ValueError):
            return  # closed in the meantime


def _turn_of(message: dict[str, Any], lowest: int) -> int:
    turn = message.get("turn")
    if not isinstance(turn, int) or turn < lowest:
        raise ChannelClosedError(f"the agent's {message['type']} has no valid turn: {turn!r}")
    return turn


def _nothing(*_: Any) -> None:
    return
