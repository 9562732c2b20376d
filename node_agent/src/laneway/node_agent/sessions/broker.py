"""Between connections and turns: opens a session for a hello, and passes on what its process says."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from laneway.api.enforcement import Enforcement, stronger
from laneway.api.quantity import format_bytes
from laneway.node_agent.clock import Clock
from laneway.node_agent.event_loop import EventLoop, Timer
from laneway.node_agent.recovery.processes import start_ticks
from laneway.node_agent.sessions.connection import Connection, RefusedError
from laneway.node_agent.sessions.door import Door
from laneway.node_agent.sessions.packets import Packet, encode
from laneway.node_agent.sessions.profile_pace import ProfilePace
from laneway.node_agent.sessions.shared_page import SharedPage
from laneway.node_agent.turns.gpu_turns import GPUTurns
from laneway.node_agent.turns.hold import Hold
from laneway.node_agent.turns.session import Report, Session, Sizes


@dataclass(slots=True)
class _Open:
    """A session with everything that it is tied to."""

    connection: Connection
    session: Session
    hold: Hold
    turns: GPUTurns
    page: SharedPage
    pidfd: int | None
    pace: ProfilePace = field(default_factory=ProfilePace)
    passes_on: Timer | None = None
    """When the profile that came too soon is passed on."""


class SessionBroker:
    """The receiver of all connections of one container."""

    def __init__(
        self, gpus: Mapping[str, GPUTurns], quantum_seconds: float, loop: EventLoop, clock: Clock
    ) -> None:
        """Begin with no door; :attr:`door` is set before the first connection comes."""
        self.door: Door | None = None
        self._gpus = gpus
        self._quantum_seconds = quantum_seconds
        self._loop = loop
        self._clock = clock
        self._opened: dict[Connection, _Open] = {}
        self._living: dict[Session, _Open] = {}
        """Sessions whose process has not ended, connected or not."""
        self._handlers: dict[str, Callable[[_Open, Mapping[str, Any]], None]] = {
            "request": self._request,
            "ping": self._ping,
            "release": self._release,
            "profile": self._profile,
            "report": self._report,
            "overrun": self._overrun,
            "goodbye": self._goodbye,
            "paused": self._paused,
            "offloaded": self._offloaded,
            "restored": self._restored,
            "refused": self._refused,
            "hello": self._second_hello,
        }

    def received(self, connection: Connection, packet: Packet) -> None:
        """Deal with a packet.

        Raises:
            RefusedError: it is not acceptable now.
        """
        opened = self._opened.get(connection)
        if opened is not None and opened.session.said_goodbye:
            raise RefusedError(f"{packet.type} came after goodbye")
        if opened is not None:
            self._handlers[packet.type](opened, packet.fields)
        elif packet.type == "hello":
            self._hello(connection, packet.fields)
        else:
            raise RefusedError(f"{packet.type} came before hello")

    def closed(self, connection: Connection) -> None:
        """Take the turn of a connection that is over; its process may live on."""
        if self.door is not None:
            self.door.leave(connection)
        opened = self._opened.pop(connection, None)
        if opened is not None:
            opened.turns.part(opened.hold, opened.session, opened.session.said_goodbye)
        elif connection.pidfd is not None:
            os.close(connection.pidfd)
            connection.pidfd = None

    def discard_all(self) -> None:
        """Forget the processes of a container that is gone."""
        for opened in tuple(self._living.values()):
            self._discard(opened)

    def _hello(self, connection: Connection, fields: Mapping[str, Any]) -> None:
        hold, turns = self._hold_for(fields["gpu"])
        pid = connection.peer.pid
        earlier = [other for other in hold.sessions if other.pid == pid]
        self._check_number(hold, earlier)
        page = SharedPage()
        session = Session(pid, page, connection, start_ticks=start_ticks(pid) or 0)
        session.framework_reserve_bytes = turns.framework_reserve_bytes(fields["device"])
        for other in earlier:
            # The figures are the process's; until it writes them itself they go on from where they were.
            page.carry_over(other.page)
        was_offloaded = any(other.standing.offloaded for other in earlier)
        session.standing.can = frozenset(fields.get("can", ()))
        session.standing.offloaded = fields.get("offloaded", False)
        if session.standing.offloaded:
            session.standing.offloaded_bytes = max((e.standing.offloaded_bytes for e in earlier), default=0)
        known = self._known_of(hold)
        connection.welcome(
            encode(
                "welcome",
                session=f"{hold.key}-{session.pid}",
                gpu=hold.gpu,
                quota_bytes=hold.quota_bytes,
                framework_bytes=session.framework_reserve_bytes,
                quantum_seconds=self._quantum_seconds,
                enforcement=stronger(hold.watched, Enforcement.COOPERATIVE).value,
                simulated=turns.gpu.simulated,
                release_again=True,
                answers_ping=True,
                profile=None if known is None else profile_fields(known),
            ),
            page,
        )
        opened = _Open(connection, session, hold, turns, page, connection.pidfd)
        self._opened[connection] = opened
        self._living[session] = opened
        connection.pidfd = None
        turns.join(hold, session)
        for other in earlier:
            self._replace(turns, hold, other)
            session.take_over(other)
        self._follow_process(connection, opened)
        if fields.get("holds_turn", False) and not turns.giver.adopt(hold, session):
            connection.revoke(0, "the turn ended with the connection that it was granted over")
        turns.orders.came(hold, session, was_offloaded=was_offloaded)

    def _hold_for(self, gpu: str | None) -> tuple[Hold, GPUTurns]:
        assert self.door is not None, "a door is opened with its broker"
        record = self.door.record
        held = sorted(record.shares)
        if gpu is None and len(held) > 1:
            raise RefusedError(
                f"hello: 'gpu' is null and the container has several; name one of {', '.join(held)}"
            )
        uuid = held[0] if gpu is None else gpu
        if uuid not in record.shares:
            raise RefusedError(f"hello: the container has no share of GPU {uuid!r}; it has {', '.join(held)}")
        turns = self._gpus[uuid]
        return turns.holds[record.key], turns

    def _check_number(self, hold: Hold, earlier: list[Session]) -> None:
        """Refuse one process too many: each that lives costs a descriptor and a page, connected or not."""
        assert self.door is not None, "a door is opened with its broker"
        most = self.door.most_processes()
        if len(hold.sessions) - len(earlier) >= most:
            raise RefusedError(f"hello: {most} living processes of the container have had a session already")

    def _known_of(self, hold: Hold) -> Sizes | None:
        """Return what was measured of the container, or on this node of another one of its template."""
        template = hold.record.template_hash
        if hold.last_sizes is not None or not template:
            return hold.last_sizes or hold.template
        for turns in self._gpus.values():
            for other in chain(turns.holds.values(), turns.ended):
                if other.last_sizes is not None and other.record.template_hash == template:
                    return other.last_sizes
        return hold.template

    def _replace(self, turns: GPUTurns, hold: Hold, earlier: Session) -> None:
        turns.replaced(hold, earlier)
        for connection, opened in tuple(self._opened.items()):
            if opened.session is earlier:
                connection.refuse("the process has opened another connection")
        if earlier in self._living:
            self._discard(self._living[earlier])

    def _follow_process(self, connection: Connection, opened: _Open) -> None:
        """See the process's end, which the connection need not show: a forked child may hold it open."""

        def ended() -> None:
            connection.read_last_words()
            connection.close()
            opened.turns.process_ended(opened.hold, opened.session)
            self._discard(opened)

        if opened.pidfd is None:
            self._loop.post(ended)
        else:
            self._loop.add_reader(opened.pidfd, ended)

    def _discard(self, opened: _Open) -> None:
        self._living.pop(opened.session, None)
        if opened.pidfd is not None:
            self._loop.remove_reader(opened.pidfd)
            os.close(opened.pidfd)
            opened.pidfd = None
        opened.page.close()

    def _request(self, opened: _Open, fields: Mapping[str, Any]) -> None:
        opened.turns.orders.request(opened.hold, opened.session)

    def _ping(self, opened: _Open, fields: Mapping[str, Any]) -> None:
        """Show a process that waits for its turn that the agent lives, however long that turn may be in coming."""
        opened.connection.answer_ping()

    def _release(self, opened: _Open, fields: Mapping[str, Any]) -> None:
        opened.turns.giver.release(
            opened.hold,
            opened.session,
            fields["turn"],
            fields["iterations"],
            fields["gpu_seconds"],
            fields.get("again", False),
        )
        if opened.hold.held_back:
            opened.turns.orders.step(opened.hold)

    def _profile(self, opened: _Open, fields: Mapping[str, Any]) -> None:
        sizes = Sizes(
            persistent_bytes=fields["persistent_bytes"],
            ephemeral_bytes=fields["ephemeral_bytes"],
            framework_bytes=fields["framework_bytes"],
            iteration_seconds=float(fields["iteration_seconds"]),
            iterations=fields["iterations"],
            largest_tensor_bytes=fields["largest_tensor_bytes"],
            model_bytes=fields["model_bytes"],
            iteration_seconds_spread=float(fields.get("iteration_seconds_spread") or 0.0),
            remaining_seconds=fields.get("remaining_seconds"),
            data_seconds=float(fields.get("data_seconds") or 0.0),
        )
        opened.pace.offer(sizes)
        self._pass_on(opened)

    def _pass_on(self, opened: _Open) -> None:
        """Pass on what counts now of the profiles that came, and come back for the rest."""
        assert self.door is not None, "a door is opened with its broker"
        now_seconds = self._clock.monotonic()
        due_seconds = opened.pace.due_seconds
        if due_seconds is None or not opened.session.connected:
            return
        if now_seconds >= due_seconds:
            if self.door.profiles.take():
                sizes = opened.pace.take(now_seconds)
                if sizes is not None:
                    opened.turns.measure(opened.hold, opened.session, sizes)
                due_seconds = opened.pace.due_seconds
            else:
                due_seconds = now_seconds + self.door.profiles.seconds_until()
        if due_seconds is not None:
            self._pass_on_at(opened, due_seconds)

    def _pass_on_at(self, opened: _Open, due_seconds: float) -> None:
        def due() -> None:
            opened.passes_on = None
            self._pass_on(opened)

        if opened.passes_on is not None:
            if opened.passes_on.due_seconds <= due_seconds:
                return
            opened.passes_on.cancel()
        opened.passes_on = self._loop.call_at(due_seconds, due)

    def _report(self, opened: _Open, fields: Mapping[str, Any]) -> None:
        """Keep the last word. It changes nothing for anybody else, so it waits for the next regular telling."""
        opened.session.report = Report(
            heard_seconds=self._clock.realtime(),
            step=fields.get("step"),
            steps=fields.get("steps"),
            epoch=fields.get("epoch"),
            loss=fields.get("loss"),
            remaining_seconds=fields.get("remaining_seconds"),
        )

    def _overrun(self, opened: _Open, fields: Mapping[str, Any]) -> None:
        used, quota = format_bytes(fields["used_bytes"]), format_bytes(fields["quota_bytes"])
        text = f"hit its memory quota: needs {used} of {quota}: {_one_line(fields['message'])}"[:1024]
        opened.turns.overran(opened.hold, text)

    def _goodbye(self, opened: _Open, fields: Mapping[str, Any]) -> None:
        opened.session.said_goodbye = True
        opened.turns.part(opened.hold, opened.session, goodbye=True)

    def _paused(self, opened: _Open, fields: Mapping[str, Any]) -> None:
        _check_ability("paused", "pause", opened.session)
        opened.turns.orders.paused(opened.hold, opened.session)

    def _offloaded(self, opened: _Open, fields: Mapping[str, Any]) -> None:
        _check_ability("offloaded", "offload", opened.session)
        self._check_pace("offloaded")
        opened.turns.orders.offloaded(opened.hold, opened.session, fields["freed_bytes"])

    def _restored(self, opened: _Open, fields: Mapping[str, Any]) -> None:
        _check_ability("restored", "offload", opened.session)
        self._check_pace("restored")
        opened.turns.orders.restored(opened.hold, opened.session)

    def _refused(self, opened: _Open, fields: Mapping[str, Any]) -> None:
        _check_ability("refused", "offload", opened.session)
        message = _one_line(fields["message"])[:1024]
        opened.turns.orders.refused(opened.hold, opened.session, fields["order"], message)

    def _check_pace(self, kind: str) -> None:
        """Refuse a packet for which the lanes would be cut anew too often."""
        assert self.door is not None, "a door is opened with its broker"
        if not self.door.profiles.take():
            raise RefusedError(f"{kind}: the container's memory changes too often")

    def _second_hello(self, opened: _Open, fields: Mapping[str, Any]) -> None:
        raise RefusedError("hello: this connection has said hello already")


def _check_ability(kind: str, ability: str, session: Session) -> None:
    if ability not in session.standing.can:
        raise RefusedError(f"{kind}: the process's hello did not say that it can {ability}")


def _one_line(text: str) -> str:
    """Return a client's text as it may stand in a log: it must not look like a line of the agent's own."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def profile_fields(sizes: Sizes) -> dict[str, Any]:
    """Return what is known of a container, as the ``profile`` of a welcome."""
    return {
        "persistent_bytes": sizes.persistent_bytes,
        "ephemeral_bytes": sizes.ephemeral_bytes,
        "framework_bytes": sizes.framework_bytes,
        "iteration_seconds": sizes.iteration_seconds,
        "iteration_seconds_spread": sizes.iteration_seconds_spread,
        "iterations": sizes.iterations,
        "largest_tensor_bytes": sizes.largest_tensor_bytes,
        "model_bytes": sizes.model_bytes,
        "data_seconds": sizes.data_seconds,
    }
