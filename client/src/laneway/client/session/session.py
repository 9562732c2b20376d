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
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.session.agent_socket import AgentSocket
from laneway.client.session.channel import ChannelClosedError, encode, encode_release
from laneway.client.session.pause import Pause
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

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.session.channel import Channel
    from laneway.client.session.settings import SessionSettings

log = logging.getLogger("laneway.client")

REQUEST: Final = encode("request")
IMMEDIATE_NS: Final = 1_000_000
"""A turn requested within a millisecond of the last release could have been requested with that release."""
RELEASE_POLL_SECONDS: Final = 0.01
"""How long a thread waits before it checks again whether another thread has sent its release."""


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
        self.socket = AgentSocket(channel, settings.session, self._handle_message)
        self.before_release: Callable[[], None] = _nothing
        """Waits for the device's work before another job gets the lane."""
        self.free_memory: Callable[[], None] = _nothing
        """Frees cached memory before another job of the lane uses it."""
        self.on_order: Callable[[str], None] = _nothing
        """Called with an order to move memory, in the thread that reads it."""
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
        self.pause = Pause(words, self.socket, self._on_pause_moved)
        self._revoked_turn = 0
        """A turn that was revoked within its iteration. The lane waits until it is released at the boundary."""
        self._awaits_answer = covers_iteration
        """The agent has not answered yet that hello reported a held turn."""
        self._covers_iteration = covers_iteration
        self._carried_turn: deque[int] = deque()
        """The turn while it covers an iteration of an earlier session."""

    @property
    def closed(self) -> bool:
        """Whether the session has ended."""
        return self.socket.closed

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
        try:
            self.socket.start_waiting()
            while not self.socket.closed:
                # At a possible pause point, wait until the gang has decided whether it pauses here.
                frozen = self.pause.is_undecided()
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
                    self.socket.send(REQUEST)
                self.socket.wait(seconds, self._on_wake)
        except (OSError, ValueError) as error:
            self.socket.close(f"waiting failed: {error}")
        finally:
            self._waiting_thread = 0
            self.socket.stop_waiting()
        return None

    def yield_turn(self) -> None:
        """Releases the turn or pauses, if the page asks for it. Called at a boundary, with the turn idle
        again."""
        frozen = self.pause.is_reached()
        if self.words[PAUSED] and not frozen and not self._is_yield_due():
            return  # the gang pauses at a later boundary
        self._return_turn(self._wants_next_turn and self.settings.release_again and not frozen)

    def iteration_ended(self) -> None:
        """Ends the iteration that began with an earlier session's turn. May be called twice, and from any
        thread."""
        self._covers_iteration = False
        try:
            self.idle_turn.append(self._carried_turn.pop())
        except IndexError:
            self._answer_pause()
            return
        if self._is_yield_due() or self.words[PAUSED]:
            self.yield_turn()

    def interrupt(self) -> None:
        """Makes a waiting `acquire` call `get_timeout` again. Safe in a signal handler."""
        self.socket.interrupt()

    # --- any thread ---

    def send_message(self, kind: str, **fields: Any) -> None:
        """Sends a message, unless the session has ended."""
        self.socket.send(encode(kind, **fields))

    def leave(self) -> None:
        """Releases the turn if it is idle, sends goodbye, and closes the session."""
        self._return_turn()
        self.socket.send(encode("goodbye"))
        self.socket.close("the process ends")

    def end(self, reason: str) -> None:
        """Closes the session for its listener. Its descriptors close once no thread waits in it, so its parts must
        not refer to it any more."""
        self.socket.close(reason)
        self.socket.on_message = self.pause.on_move = _nothing

    # --- internals ---

    def _handle_message(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "grant":
            self._on_grant(_turn_of(message, 1))
        elif kind == "yield":
            self._return_turn()
        elif kind == "revoke":
            self._on_revoke(_turn_of(message, 0), str(message.get("reason", "")))
        elif kind == "pause":
            self.pause.begin()
        elif kind == "resume":
            self.pause.resume()
        elif kind == "free":
            self._on_free()
        elif kind == "wake":
            if "descriptor" in message:  # it is missing if the process has too many
                self.socket.wakes.add(message["wake"], message["descriptor"], signals=message["signals"])
        elif kind == "forget_wake":
            self.socket.wakes.remove(message["wake"])
        elif kind in ("offload", "restore"):
            self.on_order(kind)
        elif kind == "error":
            log.warning("the agent ended the session: %s", message.get("reason", "no reason given"))

    def _on_grant(self, turn: int) -> None:
        self._requested = self._awaits_answer = False
        if turn == self._held_turn:
            return  # a duplicate grant: counting it as a second turn would release the turn during an iteration
        self._revoked_turn = (
            0  # the turn was requested outside an iteration: no release of an earlier one is to come
        )
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
            self.socket.interrupt()

    def _on_wake(self, wake: int) -> bool:
        """Takes the turn that the page says a signalled wake announces; returns whether there is one.

        The page is read again after the number is noted: the agent first withdraws a turn and then looks
        whether it was taken.
        """
        words = self.words
        with self.socket.reading:
            turn = words[ARMED_TURN]
            if not turn or words[ARMED_WAKE] != wake or self._held_turn:
                self.socket.wakes.reject(wake)
                return False
            words[TAKEN_NS] = time.monotonic_ns()
            words[TAKEN] = turn
            if turn != words[ARMED_TURN] and turn != words[TURN]:
                words[TAKEN] = 0
                return False
            self.socket.wakes.accept()
            self._on_grant(turn)
            return True

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
            if self._held_turn != turn:  # another thread has begun to send its release since the check above
                self._revoked_turn = 0
            self._return_turn()
            self._held_turn = 0
        elif turn and not self._was_granted and not self.words[INSIDE]:
            self._release(turn, again=False)  # a turn of an earlier connection, whose iteration has ended

    def _on_pause_moved(self) -> None:
        """Pauses if the process is at the iteration after which it is to pause now."""
        if not self.pause.is_reached():
            return
        self._return_turn()

    def _answer_pause(self) -> None:
        """Answers a pause that the process has reached. Does nothing while an iteration runs or a turn is not
        released yet: the thread that ends the one or the other calls this again."""
        if (
            not self.pause.is_final or not self.pause.is_reached()
        ):  # in this order: the iteration is set before it is final
            return
        if not (self._held_turn or self._revoked_turn or self._releasing or self.words[INSIDE]):
            self.pause.answer()

    def _is_yield_due(self) -> bool:
        return 0 < self.words[YIELD] <= time.monotonic_ns()

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
        self._answer_pause()
        if turn and self._waiting_thread not in (0, threading.get_ident()):
            self.socket.interrupt()

    def _release(self, turn: int, again: bool) -> None:
        self._releasing.append(None)
        try:
            self._prepare_device()
            if again:
                self._requested = True
            self._held_turn = 0
            self._hand_over()
            iterations = self.words[ITERATIONS] - self._iterations_at_grant
            gpu_seconds = (self.words[BUSY_NS] - self._busy_ns_at_grant) / 1e9
            self.socket.send(encode_release(turn, iterations, gpu_seconds, again))
            self._released_ns = time.monotonic_ns()
            if self._revoked_turn == turn:
                self._revoked_turn = 0
        finally:
            self._releasing.pop()
        self._answer_pause()

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
            self.socket.send(encode_release(0, 0, 0.0, again=False))

    def _hand_over(self) -> None:
        """Wakes the next holder, whose turn the agent has prepared. Signals that came so far are of earlier
        turns."""
        words = self.words
        words[TAKEN] = 0
        if words[SUCCESSOR]:
            self.socket.wakes.signal(words[SUCCESSOR])
        self.socket.wakes.discard()


def _turn_of(message: dict[str, Any], lowest: int) -> int:
    turn = message.get("turn")
    if not isinstance(turn, int) or turn < lowest:
        raise ChannelClosedError(f"the agent's {message['type']} has no valid turn: {turn!r}")
    return turn


def _nothing(*_: Any) -> None:
    return
