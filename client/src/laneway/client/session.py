"""One session with the agent: the messages of docs/contracts.md, and the turn.

**The turn is a token in a box** (a deque, whose `append` and `pop` are atomic). Who takes the token out may use or return the turn:

- the training thread takes it before an iteration and puts it back after it;
- whoever is to release the turn takes it out and sends `release`.

So the turn is never released during an iteration, and neither side takes a lock for it. A `yield` that comes between two iterations
is answered by the listening thread, which takes the token. One that comes during an iteration finds the box empty; the training
thread sees the page's yield word after it has put the token back. The agent writes the word before it sends the message, hence:
if the word came too late for the training thread to see it, the message finds the token in the box. One of the two always answers.

**Who reads the socket**: the listening thread, except while the training thread waits for a grant, which then reads itself, so that
no second thread has to be woken on the way from the agent to the iteration.
"""

from __future__ import annotations

import logging
import select
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.bell import Bell
from laneway.client.channel import Channel, ChannelClosedError, encode, encode_release
from laneway.client.page import BUSY_NS, INSIDE, ITERATIONS, PAUSED, TURN, YIELD
from laneway.client.sign_of_life import SignOfLife

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.gang import Gang
    from laneway.client.welcome import Welcome

log = logging.getLogger("laneway.client")

REQUEST: Final = encode("request")
PAUSED_ANSWER: Final = encode("paused")
PING: Final = encode("ping")
AT_ONCE_NS: Final = 1_000_000
"""A turn that is asked for within a millisecond of the release before might as well have been asked for with it."""
RELEASE_SECONDS: Final = 0.01
"""A thread that finds another one releasing the turn looks again after so long, if that one does not wake it before."""


class Session:
    """An open session. Made after the handshake (`laneway.client.handshake`)."""

    contested = True
    """Others may want the turn, and the agent gives it."""

    def __init__(
        self, channel: Channel, words: memoryview, welcome: Welcome, *, covers_iteration: bool
    ) -> None:
        """Takes over a connection after its handshake.

        Args:
            channel: the connection.
            words: the page.
            welcome: the agent's answer.
            covers_iteration: an iteration goes on that began with an earlier session's turn. If the agent grants this session that
                turn, it comes into the box at the end of the iteration (`iteration_ended`).
        """
        self.words = words
        self.box: deque[int] = deque()
        self.welcome = welcome
        self.closed = False
        self.before_release: Callable[[], None] = _nothing
        """Waits for the device's work and gives memory back, before others get the lane."""
        self.on_order: Callable[[str], None] = _nothing
        """Called with an order to move memory, in whichever thread reads it."""
        self._channel = channel
        self._reading = threading.Lock()
        self._listeners = select.epoll()
        self._listeners.register(channel, select.EPOLLIN)
        self._bell = Bell()
        """Wakes the thread that waits for a turn."""
        self._listeners_bell: Optional[Bell] = None
        self.sign_of_life = SignOfLife()
        """Of the agent; asked for where it answers."""
        self._waiting_thread = 0
        self._requested = covers_iteration
        """A grant is to come: it was asked for, or hello said that a turn is held; that is answered by a grant or a revocation."""
        self._releasing: deque[None] = deque()
        """Holds something while a thread takes the token to release the turn, until the release is sent."""
        self._released_ns = 0
        self._returns_at_once = False
        """The last turn was asked for right after the one before was released: so the next release asks for the next turn."""
        self._holding = 0
        self._iterations_at_grant = 0
        self._busy_ns_at_grant = 0
        self._pauses_to_answer: deque[None] = deque()
        self._pause_from: Optional[int] = None
        """How many iterations are done when the process pauses; None: it does not."""
        self._pause_is_final = False
        """That number is what it will be: its gang has agreed, or it has none."""
        self.gang: Optional[Gang] = None
        """The processes that this one waits for inside its iterations, if it is one of several."""
        self._covers_iteration = covers_iteration
        self._lent: deque[int] = deque()
        """The token while it covers that iteration."""

    # --- the training thread ---

    def acquire(self, patience: Callable[[], Optional[float]]) -> Optional[int]:
        """Waits for a turn and takes it out of the box; None if the session is over or `patience` is at an end.

        Args:
            patience: how many more seconds to wait; None for as long as it takes, 0 or less to give up. Asked again after
                `interrupt`.
        """
        self._returns_at_once = time.monotonic_ns() - self._released_ns < AT_ONCE_NS
        poller = select.poll()
        self._waiting_thread = threading.get_ident()
        self.sign_of_life.await_turn()
        try:
            poller.register(self._channel, select.POLLIN)
            poller.register(self._bell, select.POLLIN)
            self._listeners.modify(self._channel, 0)
            while not self.closed:
                # One that stands where its gang may pause goes no further before it is known whether it does.
                frozen = self._pause_from is not None and not self._pause_is_final and self._is_frozen()
                # Asked before the box: a grant that the listening thread reads between the two leaves its token and rings.
                requested = self._requested
                turn = 0 if frozen else self._take()
                if turn:
                    return turn
                seconds = patience()
                if seconds is not None and seconds <= 0:
                    return None
                if self._releasing:
                    # A request that overtook the release would be answered with the turn that goes.
                    seconds = RELEASE_SECONDS if seconds is None else min(seconds, RELEASE_SECONDS)
                elif not requested and not frozen:
                    self._requested = True
                    self._send(REQUEST)
                self._await_news(poller, seconds)
        except (OSError, ValueError) as error:
            self.close(f"waiting failed: {error}")
        finally:
            self._waiting_thread = 0
            self._listen_again()
        return None

    def give_way(self) -> None:
        """At a boundary, the token put back, when the page asks for the turn or for a pause."""
        frozen = self._is_frozen()
        if self.words[PAUSED] and not frozen and not self._is_to_yield():
            return  # its gang goes on to a later boundary
        self._give_back(self._returns_at_once and self.welcome.release_again and not frozen)
        if frozen and self._pause_is_final:
            self._answer_pause()

    def iteration_ended(self) -> None:
        """The iteration that began with an earlier session's turn is over. May be called twice, and from any thread."""
        self._covers_iteration = False
        try:
            self.box.append(self._lent.pop())
        except IndexError:
            return
        if self._is_to_yield() or self.words[PAUSED]:
            self.give_way()

    def interrupt(self) -> None:
        """Lets a waiting `acquire` ask for its patience again; safe in a signal handler."""
        self._bell.ring()

    # --- the listening thread ---

    def listen(self, bell: Bell, patience: Callable[[], Optional[float]]) -> None:
        """Answers the agent until the session is over.

        Args:
            bell: wakes the listener, which then asks for `patience` again.
            patience: called before each wait; returns how long to wait at most, None for no limit.
        """
        try:
            self._listeners.register(bell, select.EPOLLIN)
            self._listeners_bell = bell
            while not self.closed:
                seconds = patience()
                self._listeners.poll(-1 if seconds is None else max(0.0, seconds))
                bell.silence()
                self.pump()
        except (OSError, ValueError) as error:
            self.close(f"listening failed: {error}")

    # --- any thread ---

    def pump(self, most: Optional[int] = None) -> None:
        """Acts on all messages that are there, or on so many of them."""
        acted_on = 0
        with self._reading:
            try:
                while most is None or acted_on < most:
                    message = self._channel.receive()
                    if message is None:
                        return
                    self.sign_of_life.heard()
                    self._act_on(message)
                    acted_on += 1
            except ChannelClosedError as closed:
                self.close(str(closed))

    def tell(self, kind: str, **fields: Any) -> None:
        """Sends a message; nothing happens where the session is over."""
        self._send(encode(kind, **fields))

    def leave(self) -> None:
        """Returns the turn if it is not in use, says goodbye, and closes."""
        self._give_back()
        self._send(encode("goodbye"))
        self.close("the process ends")

    def close(self, reason: str) -> None:
        """Ends the session; the threads that wait in it return."""
        if not self.closed:
            log.debug("session %s is over: %s", self.welcome.session, reason)
            self.closed = True
        self._channel.close()
        # A descriptor that is closed leaves an epoll set without a sound.
        self._bell.ring()
        if self._listeners_bell is not None:
            self._listeners_bell.ring()

    def forget(self) -> None:
        """In a forked child: gives up its copies of the descriptors; the parent's session goes on."""
        self.closed = True
        self._channel.forget()
        self._listeners.close()
        self._bell.close()

    # --- within ---

    def _await_news(self, poller: select.poll, seconds: Optional[float]) -> None:
        """While a turn is waited for: acts on the agent's next message, or on the bell; closes where the agent gives no sign of life."""
        life = self.sign_of_life
        if life.is_to_ask():
            self._send(PING)
        seconds = life.until_question(seconds)
        bell = self._bell.fileno()
        for descriptor, _event in poller.poll(None if seconds is None else seconds * 1000):
            if descriptor == bell:
                self._bell.silence()
            else:
                # What follows a grant is the listening thread's: the iteration begins first.
                self.pump(most=1)
        if life.is_missing():
            # A process that itself stood still finds its time over, and perhaps the answer there.
            self.pump(most=1)
            if life.is_missing():
                self.close("the agent keeps its connection and gives no sign of life")

    def _act_on(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "grant":
            self._take_note_of_grant(_turn_of(message, 1))
        elif kind == "yield":
            self._give_back()
        elif kind == "revoke":
            self._take_note_of_revocation(_turn_of(message, 0), str(message.get("reason", "")))
        elif kind == "pause":
            self._pause()
        elif kind == "resume":
            self._pauses_to_answer.clear()
            self._pause_from = None
            self._bell.ring()
        elif kind in ("offload", "restore"):
            self.on_order(kind)
        elif kind == "error":
            log.warning("the agent ended the session: %s", message.get("reason", "no reason given"))

    def _take_note_of_grant(self, turn: int) -> None:
        self._requested = False
        if turn == self._holding:
            return  # the answer to a request that was one too many: a second token would let the turn go during an iteration
        self._iterations_at_grant = self.words[ITERATIONS]
        self._busy_ns_at_grant = self.words[BUSY_NS]
        self._holding = turn
        if self._covers_iteration:
            self._lent.append(turn)
            if not self._covers_iteration:
                self.iteration_ended()  # it ended between the two lines
            return
        self.box.append(turn)
        if not self._waiting_thread:
            self._returns_at_once = False
        elif self._waiting_thread != threading.get_ident():
            self._bell.ring()

    def _take_note_of_revocation(self, turn: int, reason: str) -> None:
        if turn in (0, self._holding):
            log.debug("turn %d was revoked: %s", turn, reason)
            self._holding = 0
            if not turn:
                self._requested = False
            self._covers_iteration = False
            self.box.clear()
            self._lent.clear()

    def _pause(self) -> None:
        self._pauses_to_answer.append(None)
        if self.gang is None or not self.gang.agree(self):
            self.pause_from(0, final=True)

    @property
    def iterations(self) -> int:
        """Iterations that the process completed."""
        return self.words[ITERATIONS]

    @property
    def is_to_pause(self) -> bool:
        """A pause was asked for, is not over, and has not been answered."""
        return bool(self._pauses_to_answer) and not self.closed

    @property
    def is_paused(self) -> bool:
        """A pause was answered and is not over."""
        return self._pause_from is not None and not self.is_to_pause and not self.closed

    def pause_from(self, iterations: int, *, final: bool) -> None:
        """No iteration begins once so many are done. May be called from any thread, again with more as long as it is not final.

        Args:
            iterations: how many.
            final: it is sure that the process stops there, so the pause is answered.
        """
        if not self.is_to_pause:
            return
        self._pause_is_final = final
        self._pause_from = iterations
        self._bell.ring()
        if not self._is_frozen():
            return
        self._give_back()
        # The token is out and the turn held: an iteration goes on, and its end will answer.
        if final and not self._holding and not self.words[INSIDE]:
            self._answer_pause()

    def _is_to_yield(self) -> bool:
        return 0 < self.words[YIELD] <= time.monotonic_ns()

    def _is_frozen(self) -> bool:
        """The process stands where it pauses, or may have to."""
        return bool(
            self.words[PAUSED] and self._pause_from is not None and self.words[ITERATIONS] >= self._pause_from
        )

    def _answer_pause(self) -> None:
        """Answers a pause once, whichever thread gets here first."""
        try:
            self._pauses_to_answer.pop()
        except IndexError:
            return
        self._pauses_to_answer.clear()
        self._send(PAUSED_ANSWER)

    def _take(self) -> int:
        """The token, if it is in the box and still good; else 0."""
        try:
            turn = self.box.pop()
        except IndexError:
            return 0
        if self.words[TURN] == turn == self._holding:
            return turn
        if turn == self._holding:
            self._holding = 0  # the page knows of the revocation before its message is here
        return 0

    def _give_back(self, again: bool = False) -> None:
        """Releases the turn if its token is in the box, and asks for the next one if `again`."""
        self._releasing.append(None)
        try:
            turn = self._take()
            if turn:
                self._release(turn, again)
        finally:
            self._releasing.pop()
        if turn and self._waiting_thread not in (0, threading.get_ident()):
            self._bell.ring()

    def _release(self, turn: int, again: bool) -> None:
        try:
            self.before_release()
        except (
            Exception
        ) as fault:  # the device's, say while a CUDA graph is captured; the lane must not wait for it
            log.debug("could not settle before the release: %r", fault)
        iterations = self.words[ITERATIONS] - self._iterations_at_grant
        gpu_seconds = (self.words[BUSY_NS] - self._busy_ns_at_grant) / 1e9
        if again:
            self._requested = True
        self._holding = 0
        self._send(encode_release(turn, iterations, gpu_seconds, again))
        self._released_ns = time.monotonic_ns()

    def _send(self, packet: bytes) -> None:
        if self.closed:
            return
        try:
            self._channel.send(packet)
        except ChannelClosedError as closed:
            self.close(str(closed))

    def _listen_again(self) -> None:
        try:
            self._listeners.modify(self._channel, select.EPOLLIN)
        except (OSError, ValueError):
            return  # closed meanwhile


def _turn_of(message: dict[str, Any], lowest: int) -> int:
    turn = message.get("turn")
    if not isinstance(turn, int) or turn < lowest:
        raise ChannelClosedError(f"the agent's {message['type']} names no turn: {turn!r}")
    return turn


def _nothing(*_: Any) -> None:
    return
