"""Connects connections to turns: opens a session for a hello and forwards what its process sends."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from laneway.api.enforcement import Enforcement, stronger
from laneway.api.goodput_status import BatchStatus
from laneway.api.names import SOCKET_NAME
from laneway.api.quantity import format_bytes
from laneway.api.schema import MAX_COUNTER
from laneway.node_agent.clock import Clock
from laneway.node_agent.event_loop import EventLoop, Timer
from laneway.node_agent.processes import start_ticks
from laneway.node_agent.sessions.connection import Connection, RefusedError
from laneway.node_agent.sessions.identity import Peer
from laneway.node_agent.sessions.limits import Limits, ProcessLimits
from laneway.node_agent.sessions.listener import Listener
from laneway.node_agent.sessions.packets import Packet, encode
from laneway.node_agent.sessions.profile_throttle import ProfileThrottle
from laneway.node_agent.sessions.shared_page import SharedPage
from laneway.node_agent.sessions.token_bucket import TokenBucket
from laneway.node_agent.turns.gpu_turns import GPUTurns
from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.session import Report, SavedWork, Session, Sizes
from pydantic import ValidationError

_BATCH: Final = ("ranks", "local_batch", "passes", "initial_batch", "max_batch", "max_local_batch")
"""The fields of a report that describe the batch, all or none of them."""


@dataclass(slots=True)
class _OpenSession:
    """A session and everything tied to it."""

    connection: Connection
    session: Session
    lease: Lease
    turns: GPUTurns
    page: SharedPage
    pidfd: int | None
    throttle: ProfileThrottle = field(default_factory=ProfileThrottle)
    profile_timer: Timer | None = None
    """When a throttled profile is applied."""


class SessionBroker:
    """Receives the packets of all connections of one container."""

    socket_name = SOCKET_NAME

    def __init__(
        self,
        gpus: Mapping[str, GPUTurns],
        quantum_seconds: float,
        loop: EventLoop,
        clock: Clock,
        limits: Limits,
    ) -> None:
        """Start without a listener; :attr:`listener` is set before the first connection arrives."""
        self.listener: Listener | None = None
        self._gpus = gpus
        self._quantum_seconds = quantum_seconds
        self._loop = loop
        self._clock = clock
        self._limits = limits
        self._packets = TokenBucket(limits.packet_burst, limits.packets_per_second, clock)
        self._profiles = TokenBucket(limits.profile_burst, limits.profiles_per_second, clock)
        self._open: dict[Connection, _OpenSession] = {}
        self._live: dict[Session, _OpenSession] = {}
        """Sessions whose process has not ended, connected or not."""
        self._handlers: dict[str, Callable[[_OpenSession, Mapping[str, Any]], None]] = {
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

    def connect(self, connected: socket.socket, peer: Peer, pidfd: int) -> Connection:
        """Serve a verified process."""
        assert self.listener is not None, "a broker has a listener before its first connection"
        return Connection(
            connected,
            peer,
            pidfd,
            self,
            self._loop,
            self._clock,
            self._limits,
            self._packets,
            self.listener.limited_log,
            self.listener.name,
        )

    def max_processes(self, limits: ProcessLimits) -> int:
        """Return how many processes may be connected."""
        return limits.sessions

    def rejection(self, reason: str) -> bytes:
        """Return the packet that tells a rejected peer why."""
        return encode("error", reason=reason)

    def received(self, connection: Connection, packet: Packet) -> None:
        """Handle a packet.

        Raises:
            RefusedError: the packet is not acceptable now.
        """
        opened = self._open.get(connection)
        if opened is not None and opened.session.said_goodbye:
            raise RefusedError(f"{packet.type} came after goodbye")
        if opened is not None:
            self._handlers[packet.type](opened, packet.fields)
        elif packet.type == "hello":
            self._hello(connection, packet.fields)
        else:
            raise RefusedError(f"{packet.type} came before hello")

    def closed(self, connection: Connection) -> None:
        """End the turn of a closed connection; its process may still run."""
        if self.listener is not None:
            self.listener.leave(connection)
        opened = self._open.pop(connection, None)
        if opened is not None:
            opened.turns.disconnect(opened.lease, opened.session, opened.session.said_goodbye)
        elif connection.pidfd is not None:
            os.close(connection.pidfd)
            connection.pidfd = None

    def discard_all(self) -> None:
        """Forget the processes of a container that has ended."""
        for opened in tuple(self._live.values()):
            self._discard(opened)

    def _hello(self, connection: Connection, fields: Mapping[str, Any]) -> None:
        gate = fields.get("gate", False)
        if gate and self._needs_no_gate(connection.peer.pid):
            connection.ungate()
            return
        lease, turns = self._hold_for(fields["gpu"], fields.get("local_rank"))
        if fields.get("no_turns"):
            turns.record_no_turns(lease, _one_line(fields["no_turns"]))
            connection.close()
            return
        pid = connection.peer.pid
        earlier = [other for other in lease.sessions if other.pid == pid]
        self._check_number(lease, earlier)
        page = SharedPage()
        session = Session(pid, page, connection, start_ticks=start_ticks(pid) or 0, has_iterations=not gate)
        connection.has_boundaries = session.has_iterations
        session.framework_reserve_bytes = turns.framework_reserve_bytes(fields["device"])
        for other in earlier:
            # The counters belong to the process. They keep their values until the process writes new ones.
            page.carry_over(other.page)
        was_offloaded = any(other.order_state.offloaded for other in earlier)
        session.order_state.capabilities = frozenset(fields.get("can", ()))
        session.hands_over = "hand_over" in session.order_state.capabilities
        session.order_state.offloaded = fields.get("offloaded", False)
        if session.order_state.offloaded:
            session.order_state.offloaded_bytes = max(
                (e.order_state.offloaded_bytes for e in earlier), default=0
            )
        known = self._known_profile(lease)
        connection.welcome(
            encode(
                "welcome",
                session=f"{lease.key}-{session.pid}",
                gpu=lease.gpu,
                quota_bytes=lease.quota_bytes,
                framework_bytes=session.framework_reserve_bytes,
                quantum_seconds=self._quantum_seconds,
                enforcement=stronger(lease.watchdog_enforcement, Enforcement.COOPERATIVE).value,
                simulated=turns.gpu.simulated,
                release_again=True,
                answers_ping=True,
                profile=None if known is None else profile_fields(known),
            ),
            page,
        )
        opened = _OpenSession(connection, session, lease, turns, page, connection.pidfd)
        self._open[connection] = opened
        self._live[session] = opened
        connection.pidfd = None
        turns.connect(lease, session)
        for other in earlier:
            self._replace(turns, lease, other)
            session.take_over(other)
        self._watch_process(connection, opened)
        holds_turn = fields.get("holds_turn", False)
        if not (holds_turn and turns.scheduler.adopt(lease, session)):
            pending = turns.scheduler.memory.pending.of(lease, pid)
            if holds_turn or pending is not None:
                number = 0 if pending is None else pending.turn
                connection.revoke(number, "the turn ended with the connection that it was granted over")
        turns.orders.process_connected(lease, session, was_offloaded=was_offloaded)

    def _needs_no_gate(self, pid: int) -> bool:
        """Return whether a process's launches need no turns of their own: its client takes them, or its container has
        several GPUs, for which one gate cannot take turns."""
        assert self.listener is not None, "a broker has a listener before its first packet"
        if len(self.listener.record.shares) > 1:
            return True
        return any(s.pid == pid and s.connected and s.has_iterations for s in self._live)

    def _hold_for(self, gpu: str | None, local_rank: int | None) -> tuple[Lease, GPUTurns]:
        """Return the container's lease of a GPU: the one that the process names, else the one of its rank.

        Ranks count the container's GPUs in the order of the inventory, as ``LANEWAY_GPUS`` does.
        """
        assert self.listener is not None, "a broker has a listener before its first packet"
        record = self.listener.record
        held = sorted(record.shares, key=lambda uuid: self._gpus[uuid].gpu.index)
        if gpu is None and local_rank is None and len(held) > 1:
            raise RefusedError(
                "hello: 'gpu' is null and the container has several; send 'local_rank' or name one of "
                f"{', '.join(held)}"
            )
        uuid = held[(local_rank or 0) % len(held)] if gpu is None else gpu
        if uuid not in record.shares:
            raise RefusedError(f"hello: the container has no share of GPU {uuid!r}; it has {', '.join(held)}")
        turns = self._gpus[uuid]
        return turns.leases[record.key], turns

    def _check_number(self, lease: Lease, earlier: list[Session]) -> None:
        """Refuse a process beyond the limit: each living one costs descriptors and a page, connected or
        not."""
        assert self.listener is not None, "a broker has a listener before its first packet"
        most = self.listener.max_processes()
        if len(lease.sessions) - len(earlier) >= most:
            raise RefusedError(f"hello: the container already has sessions for {most} living processes")

    def _known_profile(self, lease: Lease) -> Sizes | None:
        """Return the measured sizes of the container, or of another one of its template and namespace on this node.

        A template's hash is no secret, so another namespace could claim it and plant a profile.
        """
        template, namespace = lease.record.template_hash, lease.record.namespace
        if lease.last_sizes is not None or not template:
            return lease.last_sizes or lease.template
        for turns in self._gpus.values():
            for other in chain(turns.leases.values(), turns.ended):
                known = other.record.template_hash, other.record.namespace
                if other.last_sizes is not None and known == (template, namespace):
                    return other.last_sizes
        return lease.template

    def _replace(self, turns: GPUTurns, lease: Lease, earlier: Session) -> None:
        turns.replace_session(lease, earlier)
        for connection, opened in tuple(self._open.items()):
            if opened.session is earlier:
                if earlier.has_iterations:
                    connection.refuse("the process opened another connection")
                else:
                    connection.ungate()
        if earlier in self._live:
            self._discard(self._live[earlier])

    def _watch_process(self, connection: Connection, opened: _OpenSession) -> None:
        """Watch for the process's end. The connection need not show it, because a forked child may hold it
        open."""

        def ended() -> None:
            connection.read_final_packets()
            connection.close()
            opened.turns.process_ended(opened.lease, opened.session)
            self._discard(opened)

        if opened.pidfd is None:
            self._loop.post(ended)
        else:
            self._loop.add_reader(opened.pidfd, ended)

    def _discard(self, opened: _OpenSession) -> None:
        self._live.pop(opened.session, None)
        if opened.pidfd is not None:
            self._loop.remove_reader(opened.pidfd)
            os.close(opened.pidfd)
            opened.pidfd = None
        opened.page.close()

    def _request(self, opened: _OpenSession, fields: Mapping[str, Any]) -> None:
        opened.turns.orders.request(opened.lease, opened.session)

    def _ping(self, opened: _OpenSession, fields: Mapping[str, Any]) -> None:
        """Answer a ping, so that a process that waits for its turn knows that the agent is alive."""
        opened.connection.answer_ping()

    def _release(self, opened: _OpenSession, fields: Mapping[str, Any]) -> None:
        opened.turns.scheduler.release(
            opened.lease,
            opened.session,
            fields["turn"],
            fields["iterations"],
            fields["gpu_seconds"],
            fields.get("again", False),
        )
        if opened.lease.blocked:
            opened.turns.orders.step(opened.lease)

    def _profile(self, opened: _OpenSession, fields: Mapping[str, Any]) -> None:
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
        opened.throttle.offer(sizes)
        self._apply_profile(opened)

    def _apply_profile(self, opened: _OpenSession) -> None:
        """Apply the latest profile as far as the throttle allows, and schedule the rest."""
        now_seconds = self._clock.monotonic()
        due_seconds = opened.throttle.due_seconds
        if due_seconds is None or not opened.session.connected:
            return
        if now_seconds >= due_seconds:
            if self._profiles.take():
                sizes = opened.throttle.take(now_seconds)
                if sizes is not None:
                    opened.turns.measure(opened.lease, opened.session, sizes)
                due_seconds = opened.throttle.due_seconds
            else:
                due_seconds = now_seconds + self._profiles.seconds_until()
        if due_seconds is not None:
            self._apply_profile_at(opened, due_seconds)

    def _apply_profile_at(self, opened: _OpenSession, due_seconds: float) -> None:
        def due() -> None:
            opened.profile_timer = None
            self._apply_profile(opened)

        if opened.profile_timer is not None:
            if opened.profile_timer.due_seconds <= due_seconds:
                return
            opened.profile_timer.cancel()
        opened.profile_timer = self._loop.call_at(due_seconds, due)

    def _report(self, opened: _OpenSession, fields: Mapping[str, Any]) -> None:
        """Store the latest report. It affects no other session, so it waits for the next regular
        publication."""
        now_seconds = self._clock.realtime()
        said = {name: fields.get(name) for name in ("step", "steps", "epoch", "loss", "remaining_seconds")}
        tells_otherwise = "unsaved_since" in fields or "ranks" in fields
        if any(value is not None for value in said.values()) or not tells_otherwise:
            opened.session.report = Report(heard_seconds=now_seconds, **said)
        since_seconds = fields.get("unsaved_since")
        if since_seconds is not None:
            opened.session.saved_work = SavedWork(
                min(since_seconds, now_seconds), fields.get("checkpointed", False), fields.get("loaded_from")
            )
        opened.session.batch = batch_of(fields) or opened.session.batch

    def _overrun(self, opened: _OpenSession, fields: Mapping[str, Any]) -> None:
        used, quota = format_bytes(fields["used_bytes"]), format_bytes(fields["quota_bytes"])
        said = _one_line(fields["message"])
        if fields.get("device_full", False):
            opened.turns.record_device_full(opened.lease, f"found the GPU full: needs {used}: {said}"[:1024])
            return
        text = f"hit its memory quota: needs {used} of {quota}: {said}"[:1024]
        opened.turns.record_overrun(opened.lease, text)

    def _goodbye(self, opened: _OpenSession, fields: Mapping[str, Any]) -> None:
        opened.session.said_goodbye = True
        opened.turns.disconnect(opened.lease, opened.session, goodbye=True)

    def _paused(self, opened: _OpenSession, fields: Mapping[str, Any]) -> None:
        _check_capability("paused", "pause", opened.session)
        opened.turns.orders.paused(opened.lease, opened.session)

    def _offloaded(self, opened: _OpenSession, fields: Mapping[str, Any]) -> None:
        _check_capability("offloaded", "offload", opened.session)
        self._check_rate("offloaded")
        opened.turns.orders.offloaded(opened.lease, opened.session, fields["freed_bytes"])

    def _restored(self, opened: _OpenSession, fields: Mapping[str, Any]) -> None:
        _check_capability("restored", "offload", opened.session)
        self._check_rate("restored")
        opened.turns.orders.restored(opened.lease, opened.session)

    def _refused(self, opened: _OpenSession, fields: Mapping[str, Any]) -> None:
        _check_capability("refused", "offload", opened.session)
        message = _one_line(fields["message"])[:1024]
        opened.turns.orders.refused(opened.lease, opened.session, fields["order"], message)

    def _check_rate(self, kind: str) -> None:
        """Refuse a packet that would rebuild the lanes too often."""
        if not self._profiles.take():
            raise RefusedError(f"{kind}: the container's memory changes too often")

    def _second_hello(self, opened: _OpenSession, fields: Mapping[str, Any]) -> None:
        raise RefusedError("hello: this connection has already sent one")


def _check_capability(kind: str, capability: str, session: Session) -> None:
    if capability not in session.order_state.capabilities:
        raise RefusedError(f"{kind}: the process's hello did not list the capability {capability}")


def batch_of(fields: Mapping[str, Any]) -> BatchStatus | None:
    """Return the batch that a report describes; None where it describes none, or one that cannot be."""
    if fields.get("ranks") is None:
        return None
    noise_scale = fields.get("noise_scale")
    try:
        return BatchStatus.model_validate(
            {
                **{name: fields.get(name) for name in _BATCH},
                "noise_scale": None if noise_scale is None else min(round(noise_scale), MAX_COUNTER),
            }
        )
    except ValidationError:
        return None


def _one_line(text: str) -> str:
    """Replace unprintable characters in a client's text, so that it cannot forge a log line."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def profile_fields(sizes: Sizes) -> dict[str, Any]:
    """Return known sizes as the ``profile`` field of a welcome."""
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
