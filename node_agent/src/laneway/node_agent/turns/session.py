"""A session: one process of a container, connected to the agent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from laneway.api.goodput_status import BatchStatus
from laneway.node_agent.turns.order_state import OrderCommand, OrderState

NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes that a process measured over its last iterations."""

    persistent_bytes: int
    ephemeral_bytes: int
    framework_bytes: int = 0
    iteration_seconds: float = 0.0
    iterations: int = 0
    largest_tensor_bytes: int = 0
    model_bytes: int = 0
    iteration_seconds_spread: float = 0.0
    """Standard deviation of the iteration time."""

    remaining_seconds: float | None = None
    """How much longer it would run alone; None if unknown."""

    data_seconds: float = 0.0
    """Mean time before an iteration that was not spent waiting for a turn."""


@dataclass(frozen=True, slots=True)
class Report:
    """A training script's last report; a field is None if the script did not report it."""

    heard_seconds: float
    """When the report arrived, by CLOCK_REALTIME."""

    step: int | None = None
    steps: int | None = None
    epoch: int | None = None
    loss: str | None = None
    """A number as text, including NaN and infinities."""

    remaining_seconds: float | None = None
    """How long the rest would take at the recent pace."""


@dataclass(frozen=True, slots=True)
class SavedWork:
    """What a process's client saw of checkpoints. Times are Unix times."""

    unsaved_since_seconds: float
    """When the last complete checkpoint was begun; without one, when the training began."""

    checkpointed: bool = False
    """Whether the process has written a checkpoint."""

    loaded_from_seconds: float | None = None
    """When the newest checkpoint was written that the process had loaded before it trained; None: it loaded none."""

    ended: bool = False
    """Whether the process has ended: what it had not saved is lost already."""


def saved_by_any(works: Iterable[SavedWork | None]) -> SavedWork | None:
    """Return what the processes of a container saved together: usually one writes for all of them, so the latest counts. None
    if no process trains under a client that knows."""
    known = [each for each in works if each is not None]
    if not known:
        return None
    loaded = [each.loaded_from_seconds for each in known if each.loaded_from_seconds is not None]
    latest = max(known, key=lambda each: (each.unsaved_since_seconds, each.checkpointed))
    return replace(latest, loaded_from_seconds=max(loaded, default=None))


class Page(Protocol):
    """The words that agent and client share (docs/contracts.md, "The page"). Reading needs no system call."""

    def write_turn(self, turn: int) -> None:
        """Write the turn that the session holds, 0 for none, and clear the request to yield."""
        ...

    def write_yield(self, from_ns: int = 1) -> None:
        """Ask the session to release at its first boundary after a time (CLOCK_MONOTONIC); 1: at the next
        boundary."""
        ...

    def write_available(self, available_bytes: int) -> None:
        """Write how much of a simulated GPU the process may hold; at least 1."""
        ...

    def write_successor(self, wake: int) -> None:
        """Write which wake the session signals with its release; 0: none."""
        ...

    def write_armed(self, turn: int, wake: int) -> None:
        """Write which turn the session may begin once a wake is signalled; 0, 0: none."""
        ...

    def write_keeps_memory(self, keeps: bool) -> None:
        """Write whether the session may keep cached memory when it releases."""
        ...

    @property
    def kept_memory(self) -> bool:
        """Whether the process kept cached memory at its last release."""
        ...

    @property
    def taken(self) -> int:
        """The armed turn that the process has begun, and not released; 0: none."""
        ...

    @property
    def taken_ns(self) -> int:
        """CLOCK_MONOTONIC of when it began the armed turn."""
        ...

    @property
    def iterations(self) -> int:
        """Iterations completed by the process."""
        ...

    @property
    def inside(self) -> bool:
        """Whether the process is inside an iteration."""
        ...

    @property
    def boundary_ns(self) -> int:
        """CLOCK_MONOTONIC of the process's last boundary."""
        ...

    @property
    def held_bytes(self) -> int:
        """Bytes of the GPU that the process holds."""
        ...

    @property
    def peak_bytes(self) -> int:
        """The most bytes held since its last boundary."""
        ...

    @property
    def busy_ns(self) -> int:
        """Time spent inside iterations, up to the last boundary."""
        ...

    @property
    def data_ns(self) -> int:
        """Time spent between iterations, without waiting for turns."""
        ...


class ClientChannel(Protocol):
    """The channel to the client. If sending fails, the channel closes itself later, never inside the call."""

    def grant(self, turn: int) -> None:
        """Tell the client that it holds a turn."""
        ...

    def request_yield(self, turn: int) -> None:
        """Ask the client to release. Repeating the request for the same turn costs nothing."""
        ...

    def credit_release(self) -> None:
        """Record that the client released because its page said so, and credit the packets that this
        takes."""
        ...

    def free_memory(self) -> None:
        """Ask the client to free cached memory, and to say so with a release of turn 0."""
        ...

    def share_wake(self, wake: int, successor: ClientChannel) -> None:
        """Create a wake with which this client signals another one, and give both their end of it."""
        ...

    def give_wake(self, wake: int, descriptor: int, *, signals: bool) -> None:
        """Give the client its end of a wake: it signals another process, or is signalled."""
        ...

    def forget_wake(self, wake: int) -> None:
        """Tell the client that the other process of a wake is gone."""
        ...

    def revoke(self, turn: int, reason: str) -> None:
        """Tell the client that it no longer holds a turn, and ask for its release; 0: no turn is awaited."""
        ...

    def order(self, command: OrderCommand) -> None:
        """Tell the client to pause, resume, offload or restore."""
        ...


@dataclass(eq=False, slots=True)
class Session:
    """One process. Sessions are compared by identity: a process that reconnects has a new session."""

    pid: int
    """In the agent's own PID namespace."""

    page: Page
    channel: ClientChannel
    start_ticks: int = 0
    """When the process started, in clock ticks since boot. Together with the pid it identifies a process
    on this machine."""

    has_iterations: bool = True
    """False: its turns are taken by the interposer's launch gate. They end when their quantum is over, and it is
    inside from the first launch to the last."""

    sizes: Sizes | None = None
    report: Report | None = None
    saved_work: SavedWork | None = None
    """None: it does not train, or its client does not watch checkpoints."""

    batch: BatchStatus | None = None
    """None: its client does not know the batch."""

    framework_reserve_bytes: int = 0
    """Counted for its framework's own memory until that is known."""

    framework_seen_bytes: int = 0
    """What the driver reports beyond its tensors; 0: not seen yet."""

    hands_over: bool = False
    """Its client wakes its successor, and can be woken by the process before it."""

    connected: bool = True
    """False: the connection ended. The process may still run, and its memory counts until it ends."""

    said_goodbye: bool = False
    requested: bool = False
    """It has requested a turn and holds none."""

    has_run: bool = False
    """It has requested a turn at some time, so its memory matters and it must send a profile."""

    awaiting_reconnect: bool = False
    """An earlier agent process had it. The process still runs and has not reconnected yet."""

    order_state: OrderState = field(default_factory=OrderState)
    """Its progress in following the orders to its container."""

    granted_iterations: int = 0
    """Its iterations when its turn began."""

    granted_busy_ns: int = 0
    """Its time inside iterations when its turn began."""

    @property
    def framework_bytes(self) -> int:
        """Return the framework's own memory: as the process reports it, else as the driver reports it,
        else the reserve."""
        reported_bytes = self.sizes.framework_bytes if self.sizes else 0
        return reported_bytes or self.framework_seen_bytes or self.framework_reserve_bytes

    @property
    def in_first_iteration(self) -> bool:
        """Return whether it is in its first iteration, or ended it a moment ago: its release may be under way."""
        began_with_this_turn = self.granted_iterations == 0 and self.sizes is None
        in_or_after = self.page.inside or self.page.iterations == 1
        return self.has_iterations and began_with_this_turn and self.page.iterations <= 1 and in_or_after

    def take_over(self, earlier: Session) -> None:
        """Continue from an earlier session of the process, with its memory and measurements."""
        self.sizes = self.sizes or earlier.sizes
        self.report = self.report or earlier.report
        self.saved_work = self.saved_work or earlier.saved_work
        self.batch = self.batch or earlier.batch
        self.framework_seen_bytes = self.framework_seen_bytes or earlier.framework_seen_bytes
        self.has_run = self.has_run or earlier.has_run or earlier.awaiting_reconnect

    def mark_granted(self) -> None:
        """Remember the counters at the start of the turn."""
        self.requested = False
        self.granted_iterations = self.page.iterations
        self.granted_busy_ns = self.page.busy_ns

    def busy_seconds_since_grant(self, now_ns: int, granted_ns: int) -> float:
        """Return the time inside iterations since its turn began, including the current iteration."""
        page = self.page
        busy_ns = max(0, page.busy_ns - self.granted_busy_ns)
        if page.inside:
            busy_ns += max(0, now_ns - max(page.boundary_ns, granted_ns))
        return min(busy_ns, max(0, now_ns - granted_ns)) / NANOSECONDS
