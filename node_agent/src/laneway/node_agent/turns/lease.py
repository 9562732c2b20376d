"""A lease: one container's share of one GPU, from its allocation until the container ends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from laneway.api.container_record import ContainerRecord
from laneway.api.enforcement import Enforcement
from laneway.api.goodput_status import BatchStatus
from laneway.api.gpu_node import SessionState
from laneway.api.orders import PodOrder
from laneway.lanes import MemoryAccount, SeenMemory, Tenant
from laneway.lanes.turns import SessionView
from laneway.node_agent.turns.counting import measured_sizes
from laneway.node_agent.turns.gap_wait import GapWait
from laneway.node_agent.turns.session import NANOSECONDS, Report, SavedWork, Session, Sizes, saved_by_any
from laneway.node_agent.turns.turn_time import TurnTime


@dataclass(slots=True)
class Counters:
    """Totals of the processes that have ended, and the turns of all processes."""

    turns: int = 0
    iterations: int = 0
    busy_ns: int = 0
    data_ns: int = 0


@dataclass(eq=False, slots=True)
class Lease:
    """One container's lease of a share of one GPU."""

    record: ContainerRecord
    gpu: str
    quota_bytes: int
    holds_all_ids: bool
    """Whether it holds all that the GPU offers, so that no other container holds a part of it."""

    sessions: list[Session] = field(default_factory=list)
    """Processes whose memory counts: connected ones, and disconnected ones that still run."""

    counters: Counters = field(default_factory=Counters)
    in_table: bool = False
    """Whether it is in the lane table: from its allocation until its container ends, except while it is offloaded."""

    seen: SeenMemory = field(default_factory=SeenMemory)
    """What the driver and the memory account show of its memory, whatever its processes report."""

    arrived_seconds: float = 0.0
    """When its first session opened (monotonic)."""

    service_seconds: float = 0.0
    """The service that the turn policy counts. It differs from the attained service."""

    turn_time: TurnTime = field(default_factory=TurnTime)
    """How long it has held turns, by the clock."""

    gap_wait: GapWait = field(default_factory=GapWait)
    """How long it has waited for others that filled gaps between its iterations."""

    computes: bool = False
    """The last reading of the driver showed that one of its processes computed, whatever their pages say."""

    unscheduled_seconds: float = 0.0
    """For how long it computed without a turn while others of its lane wanted one, as sampled."""

    attained_seconds: float = 0.0
    """All service charged to it, in any lane."""

    ends_at_seconds: float | None = None
    """The attained service at which its work will be done, as its process estimates; None if unknown."""

    view: SessionView | None = None
    """What the policy sees while it waits; None while it does not wait."""

    away_since_seconds: float = 0.0
    """Since when it neither waits nor holds a turn."""

    kept_waiting_seconds: float = 0.0
    """How long its turns have kept others waiting, less what those have had since then."""

    newcomer: bool = True
    """Its service has not been raised to the level of its lane yet."""

    template: Sizes | None = None
    """The sizes known of its template."""

    counted: Sizes | None = None
    """The sizes that the lane table counts for it."""

    last_sizes: Sizes | None = None
    """The last complete measurement, for reports; it outlives the processes."""

    last_report: Report | None = None
    """The last report of the process that ended last."""

    last_saved_work: SavedWork | None = None
    """What its processes that have ended saved."""

    last_batch: BatchStatus | None = None
    """The last batch of the process that ended last."""

    uncovered: str = ""
    """Why it may not run although it has a lane: the GPU's memory does not cover its growth."""

    overdue_release: str = ""
    """Its turn has ended, it keeps its memory, and others have waited for that too long: why, as a clause."""

    order: PodOrder | None = None
    """The order that applies to it; None: it may run."""

    blocked: bool = False
    """It gets no turn, because of an order or until its memory is restored from the host."""

    withheld: bool = False
    """It gets no other turn until the lanes take turns again: it kept one for so long that other lanes no longer
    waited for it, or it ran beside them to find out what that gains."""

    offloaded: bool = False
    """All of its movable memory is on the host, so it has left the lane table."""

    last_event: str = ""
    """The last notable event, as a clause."""

    no_turns: str = ""
    """Why its client takes no turns, as a clause; empty once one takes them."""

    over_quota: str = ""
    """What it holds beyond its quota, as a clause."""

    watchdog_enforcement: Enforcement = Enforcement.NONE
    """The level that holds without its client's cooperation (``laneway.node_agent.enforcement``)."""

    watchdog_message: str = ""
    """The watchdog's current warning, as a clause."""

    evicted: str = ""
    """Why its processes were stopped, as one CamelCase word; empty if they were not, or others replaced
    them."""

    eviction_message: str = ""
    """Why its processes were last stopped, as a clause."""

    stray_messages: dict[str, str] = field(default_factory=dict)
    """What its pod does on GPUs without a share of them, by GPU, as clauses."""

    turns_at_last_reading: int | None = None
    """Its number of turns at the last memory reading; None if it held a turn then."""

    may_be_armed: bool = True
    """False once it or its predecessor in a lane claimed a hand-off that was none: the agent grants its turns."""

    lost: bool = False
    """Its last connection ended without a goodbye."""

    welcomed: bool = False

    account: MemoryAccount = field(init=False)
    """What its processes have reserved through the interposer."""

    def __post_init__(self) -> None:
        self.account = MemoryAccount(self.quota_bytes)

    @property
    def key(self) -> str:
        """Return the container's key."""
        return self.record.key

    @property
    def terms(self) -> tuple[bool, bool]:
        """Return the sharing terms: whether the job spans GPUs, and whether it has the GPU exclusively.

        Who holds a part of a GPU cannot have it exclusively, whatever its record says.
        """
        return self.record.spans_gpus, self.record.sharing == "Exclusive" and self.holds_all_ids

    @property
    def may_run(self) -> bool:
        """Return whether it may be granted a turn when its lane is free."""
        return not self.uncovered and not self.blocked and not self.withheld

    @property
    def connected(self) -> list[Session]:
        """Return the processes that the agent has a connection to."""
        return [session for session in self.sessions if session.connected]

    @property
    def weight(self) -> int:
        """Return its weight within a lane: its share of the GPU, in percent."""
        share_percent = self.record.shares[self.gpu]
        return share_percent if share_percent > 1 else 1

    def remaining_seconds(self, extra_seconds: float = 0.0) -> float | None:
        """Return the service that it still needs; None if unknown."""
        if self.ends_at_seconds is None:
            return None
        return max(0.0, self.ends_at_seconds - self.attained_seconds - extra_seconds)

    @property
    def wants_turn(self) -> bool:
        """Return whether one of its processes has requested a turn."""
        for session in self.sessions:  # noqa: SIM110 - asked at each hand-off: any() would make a generator
            if session.requested:
                return True
        return False

    @property
    def holds_memory(self) -> bool:
        """Return whether one of its processes may have memory on the GPU. None has before its first turn."""
        return any(
            (session.has_run or session.awaiting_reconnect) and not session.order_state.offloaded
            for session in self.sessions
        )

    @property
    def iterations(self) -> int:
        """Return the iterations of all its processes, ended ones included."""
        return self.counters.iterations + sum(session.page.iterations for session in self.sessions)

    @property
    def busy_seconds(self) -> float:
        """Return the time inside iterations of all its processes, ended ones included."""
        busy_ns = self.counters.busy_ns + sum(session.page.busy_ns for session in self.sessions)
        return busy_ns / NANOSECONDS

    @property
    def data_seconds(self) -> float:
        """Return the time between iterations of all its processes, ended ones included. Waiting for turns
        is excluded."""
        data_ns = self.counters.data_ns + sum(session.page.data_ns for session in self.sessions)
        return data_ns / NANOSECONDS

    @property
    def report(self) -> Report | None:
        """Return its last report. Among several processes, the first one that reports counts."""
        return next((session.report for session in self.sessions if session.report), self.last_report)

    @property
    def batch(self) -> BatchStatus | None:
        """Return the batch of its training. Among several processes, the first one that reports counts."""
        return next((session.batch for session in self.sessions if session.batch), self.last_batch)

    @property
    def saved_work(self) -> SavedWork | None:
        """Return what its processes saved: those that run, else those that have ended. None if unknown."""
        running = saved_by_any(session.saved_work for session in self.sessions)
        return running or self.last_saved_work

    @property
    def held_bytes(self) -> int:
        """Return how many bytes its processes report holding."""
        return sum(session.page.held_bytes for session in self.sessions)

    @property
    def offloaded_bytes(self) -> int:
        """Return how many bytes its processes report having moved to the host."""
        return sum(session.order_state.offloaded_bytes for session in self.sessions)

    @property
    def sizes(self) -> Sizes | None:
        """Return its measured sizes; None while a running process has sent no profile."""
        return measured_sizes(self.sessions)

    def tenant(self) -> Tenant:
        """Return it as a tenant of ``laneway.lanes``, with the sizes that count."""
        spans_gpus, exclusive = self.terms
        tenant = Tenant(
            key=self.key,
            quota_bytes=self.quota_bytes,
            spans_gpus=spans_gpus,
            exclusive=exclusive,
            resident_bytes=self.seen.resident_bytes,
            occupied_bytes=self.seen.occupied_bytes,
        )
        if self.counted is None:
            return tenant
        return tenant.profiled_as(
            self.counted.persistent_bytes + self.counted.framework_bytes, self.counted.ephemeral_bytes
        )

    def charge(self, seconds: float) -> None:
        """Charge service to it. If it waits, the turn policy sees it at once."""
        self.service_seconds += seconds
        self.attained_seconds += seconds
        if self.view is not None:
            self.view = self.to_view(self.view.waiting_since_seconds)

    def refund(self, seconds: float) -> None:
        """Have the turn policy count less service of it. If it waits, the policy sees that at once."""
        self.service_seconds -= seconds
        if self.view is not None:
            self.view = self.to_view(self.view.waiting_since_seconds)

    def to_view(self, waiting_since_seconds: float, extra_seconds: float = 0.0) -> SessionView:
        """Return what the turn policy sees of it."""
        return SessionView(
            key=self.record.key,
            arrived_seconds=self.arrived_seconds,
            waiting_since_seconds=waiting_since_seconds,
            gpu_seconds=self.service_seconds + extra_seconds,
            weight=self.weight,
            turns=self.counters.turns,
            attained_seconds=self.attained_seconds + extra_seconds,
            remaining_seconds=None if self.ends_at_seconds is None else self.remaining_seconds(extra_seconds),
        )

    def state(self, holds_turn: bool) -> SessionState:
        """Return its session state while its container runs. Without an order it is neither paused nor offloaded, wherever its memory is."""
        ordered = self.order is not None
        if ordered and self.sessions and all(session.order_state.offloaded for session in self.sessions):
            return SessionState.OFFLOADED
        if holds_turn:
            return SessionState.HOLDING
        if self.connected:
            paused = all(session.order_state.paused for session in self.connected)
            return SessionState.PAUSED if ordered and paused else SessionState.WAITING
        return SessionState.LOST if self.lost else SessionState.ALLOCATED

    def forget_process(self, session: Session) -> None:
        """Remove a process that has ended; its totals still count."""
        self.sessions.remove(session)
        self.counters.iterations += session.page.iterations
        self.counters.busy_ns += session.page.busy_ns
        self.counters.data_ns += session.page.data_ns
        self.last_report = session.report or self.last_report
        self.last_batch = session.batch or self.last_batch
        if session.saved_work is not None:
            ended = replace(session.saved_work, ended=True)
            self.last_saved_work = saved_by_any((ended, self.last_saved_work))
