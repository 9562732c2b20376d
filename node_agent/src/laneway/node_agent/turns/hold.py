"""A hold: what one container has of one GPU, from its allocation to the end of its container."""

from __future__ import annotations

from dataclasses import dataclass, field

from laneway.api.container_record import ContainerRecord
from laneway.api.enforcement import Enforcement
from laneway.api.gpu_node import SessionState
from laneway.api.orders import PodOrder
from laneway.lanes import Tenant
from laneway.lanes.turns import SessionView
from laneway.node_agent.turns.counting import measured_sizes
from laneway.node_agent.turns.session import NANOSECONDS, Report, Session, Sizes


@dataclass(slots=True)
class Counters:
    """What the processes that have ended did, and the turns of all."""

    turns: int = 0
    iterations: int = 0
    busy_ns: int = 0
    data_ns: int = 0


@dataclass(eq=False, slots=True)
class Hold:
    """One container's hold on one GPU."""

    record: ContainerRecord
    gpu: str
    quota_bytes: int
    sessions: list[Session] = field(default_factory=list)
    """Processes whose memory counts: connected ones, and lost ones that still live."""

    counters: Counters = field(default_factory=Counters)
    in_table: bool = False
    """Whether the lane table knows it: from the first hello until its last process has ended."""

    arrived_seconds: float = 0.0
    """When its first session opened (monotonic)."""

    service_seconds: float = 0.0
    """What the turn policy counts; not what it attained."""

    attained_seconds: float = 0.0
    """All the service that it was charged with, in whatever lane."""

    ends_at_seconds: float | None = None
    """The attained service at which it will have done its work, by its own word; None: not known."""

    view: SessionView | None = None
    """What the policy sees of it while it waits; None while it does not wait."""

    away_since_seconds: float = 0.0
    """Since when it neither waits nor holds."""

    overstayed_seconds: float = 0.0
    """How long it kept its last turn after it was asked to yield."""

    newcomer: bool = True
    """Its service has not been brought to the level of its lane."""

    template: Sizes | None = None
    """What is known of its template."""

    counted: Sizes | None = None
    """The sizes that the lane table has of it."""

    last_sizes: Sizes | None = None
    """The last complete measurement, for reports; it outlives the processes."""

    last_report: Report | None = None
    """What the last process that ended had reported."""

    uncovered: str = ""
    """Why it may not run although it has a lane: its growth is not covered by the GPU's memory."""

    order: PodOrder | None = None
    """What it was ordered to do; None: to run."""

    held_back: bool = False
    """It gets no turn, because of an order, or until its memory is back from the host."""

    offloaded: bool = False
    """Its memory is on the host, all of it that can be moved: it has left the lane table."""

    note: str = ""
    """The last noteworthy thing that happened to it."""

    over_quota: str = ""
    """What it holds beyond its quota, as a sentence."""

    watched: Enforcement = Enforcement.NONE
    """What holds it to its quota beside its clients (``laneway.node_agent.enforcement``)."""

    watch_text: str = ""
    """What the watchdog has against it now, as a sentence."""

    evicted: str = ""
    """Why its processes were stopped, as one CamelCase word; empty where they were not, or others run in their place."""

    epitaph: str = ""
    """What was said when its processes were last stopped, as a sentence."""

    turns_at_look: int | None = None
    """Its turns when the driver was last asked about its memory; None where it had one then."""

    lost: bool = False
    """Its last connection ended without a goodbye."""

    welcomed: bool = False

    @property
    def key(self) -> str:
        """Return the container's key."""
        return self.record.key

    @property
    def terms(self) -> tuple[bool, bool]:
        """Return with whom it may share: whether its job spans GPUs, and whether it has the GPU alone."""
        return self.record.spans_gpus, self.record.sharing == "Exclusive"

    @property
    def may_run(self) -> bool:
        """Return whether it may be granted a turn where its lane is free."""
        return not self.uncovered and not self.held_back

    @property
    def connected(self) -> list[Session]:
        """Return its processes that the agent can talk to."""
        return [session for session in self.sessions if session.connected]

    @property
    def weight(self) -> int:
        """Return its weight among the others of a lane: its share of the GPU, in percent."""
        return max(1, self.record.shares[self.gpu])

    def remaining_seconds(self, extra_seconds: float = 0.0) -> float | None:
        """Return the service that it still needs; None: not known."""
        if self.ends_at_seconds is None:
            return None
        return max(0.0, self.ends_at_seconds - self.attained_seconds - extra_seconds)

    @property
    def wants_turn(self) -> bool:
        """Whether one of its processes asks for a turn."""
        return any(session.asked for session in self.sessions)

    @property
    def holds_memory(self) -> bool:
        """Whether a process of it may have memory on the GPU: none has before its first turn."""
        return any(
            (session.has_run or session.remembered) and not session.standing.offloaded
            for session in self.sessions
        )

    @property
    def iterations(self) -> int:
        """Return the iterations of all its processes, ended ones too."""
        return self.counters.iterations + sum(session.page.iterations for session in self.sessions)

    @property
    def busy_seconds(self) -> float:
        """Return the time inside iterations of all its processes, ended ones too."""
        busy_ns = self.counters.busy_ns + sum(session.page.busy_ns for session in self.sessions)
        return busy_ns / NANOSECONDS

    @property
    def data_seconds(self) -> float:
        """Return the time between iterations of all its processes, ended ones too, waits for turns not counted."""
        data_ns = self.counters.data_ns + sum(session.page.data_ns for session in self.sessions)
        return data_ns / NANOSECONDS

    @property
    def report(self) -> Report | None:
        """Return what it reported last; of several processes, the first that reports has the word."""
        return next((session.report for session in self.sessions if session.report), self.last_report)

    @property
    def held_bytes(self) -> int:
        """Return what its processes say they hold now."""
        return sum(session.page.held_bytes for session in self.sessions)

    @property
    def offloaded_bytes(self) -> int:
        """Return what its processes say they moved to the host."""
        return sum(session.standing.offloaded_bytes for session in self.sessions)

    @property
    def sizes(self) -> Sizes | None:
        """Return what was measured of it; None as long as a process that runs iterations owes its profile."""
        return measured_sizes(self.sessions)

    def tenant(self) -> Tenant:
        """Return it as ``laneway.lanes`` sees it, with the sizes that count."""
        spans_gpus, exclusive = self.terms
        tenant = Tenant(
            key=self.key,
            quota_bytes=self.quota_bytes,
            spans_gpus=spans_gpus,
            exclusive=exclusive,
        )
        if self.counted is None:
            return tenant
        return tenant.profiled_as(
            self.counted.persistent_bytes + self.counted.framework_bytes, self.counted.ephemeral_bytes
        )

    def see(self, waiting_since_seconds: float, extra_seconds: float = 0.0) -> SessionView:
        """Return what the turn policy sees of it."""
        return SessionView(
            key=self.key,
            arrived_seconds=self.arrived_seconds,
            waiting_since_seconds=waiting_since_seconds,
            gpu_seconds=self.service_seconds + extra_seconds,
            weight=self.weight,
            turns=self.counters.turns,
            attained_seconds=self.attained_seconds + extra_seconds,
            remaining_seconds=self.remaining_seconds(extra_seconds),
        )

    def state(self, holds_turn: bool) -> SessionState:
        """Return how far it has come, while its container lives."""
        if self.sessions and all(session.standing.offloaded for session in self.sessions):
            return SessionState.OFFLOADED
        if holds_turn:
            return SessionState.HOLDING
        if self.connected:
            paused = all(session.standing.paused for session in self.connected)
            return SessionState.PAUSED if self.order is not None and paused else SessionState.WAITING
        return SessionState.LOST if self.lost else SessionState.ALLOCATED

    def forget_process(self, session: Session) -> None:
        """Let a process go that has ended; what it did stays counted."""
        self.sessions.remove(session)
        self.counters.iterations += session.page.iterations
        self.counters.busy_ns += session.page.busy_ns
        self.counters.data_ns += session.page.data_ns
        self.last_report = session.report or self.last_report
