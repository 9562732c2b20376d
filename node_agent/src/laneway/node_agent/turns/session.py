"""A session: one process of a container, connected to the agent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from laneway.node_agent.orders.standing import OrderWord, Standing

NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a process measured of itself over its last iterations."""

    persistent_bytes: int
    ephemeral_bytes: int
    framework_bytes: int = 0
    iteration_seconds: float = 0.0
    iterations: int = 0
    largest_tensor_bytes: int = 0
    model_bytes: int = 0
    iteration_seconds_spread: float = 0.0
    """Standard deviation of the iteration's time."""

    remaining_seconds: float | None = None
    """How much longer it would run alone; None: not known."""

    data_seconds: float = 0.0
    """Mean time before an iteration that was no wait for a turn."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a process's script last said of its training; None: it did not."""

    heard_seconds: float
    """When, by CLOCK_REALTIME."""

    step: int | None = None
    steps: int | None = None
    epoch: int | None = None
    loss: str | None = None
    """A number as text, NaN and infinities included."""

    remaining_seconds: float | None = None
    """How long the rest would take at the pace of late."""


class Page(Protocol):
    """The words that agent and client share (docs/contracts.md, "The page"). Reading costs no system call."""

    def show_turn(self, turn: int) -> None:
        """Write the turn that the session holds, 0 for none, and take back the wish that it yield."""
        ...

    def show_yield(self, from_ns: int = 1) -> None:
        """Write that the session is to release at its first boundary from that time on (CLOCK_MONOTONIC); 1: at the next one."""
        ...

    def show_room(self, room_bytes: int) -> None:
        """Write how much the process may hold of a simulated GPU; at least 1."""
        ...

    @property
    def iterations(self) -> int:
        """Iterations that the process completed."""
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
    def highest_bytes(self) -> int:
        """The most of them since its last boundary."""
        ...

    @property
    def busy_ns(self) -> int:
        """Time that the process spent inside iterations, up to its last boundary."""
        ...

    @property
    def data_ns(self) -> int:
        """Time that it spent between iterations, waits for turns not counted."""
        ...


class Line(Protocol):
    """The way to the client. A line that breaks while sending closes itself later, never inside the call."""

    def grant(self, turn: int) -> None:
        """Tell it that it holds a turn."""
        ...

    def ask_yield(self, turn: int) -> None:
        """Ask it to release; asking again for the same turn costs nothing."""
        ...

    def excuse(self) -> None:
        """Take note that it released because its page said so: what that takes in packets is paid for."""
        ...

    def revoke(self, turn: int, reason: str) -> None:
        """Tell it that it holds no turn any more."""
        ...

    def order(self, word: OrderWord) -> None:
        """Tell it to pause, resume, offload or restore."""
        ...


@dataclass(eq=False, slots=True)
class Session:
    """One process. Compared by identity: a process that reconnects has a new session."""

    pid: int
    """As the agent's own process namespace counts."""

    page: Page
    line: Line
    start_ticks: int = 0
    """When it started, in clock ticks since boot: with the pid, a process's name on this machine."""

    sizes: Sizes | None = None
    report: Report | None = None
    framework_reserve_bytes: int = 0
    """What counts for its framework's own memory until that is known."""

    framework_seen_bytes: int = 0
    """What the driver says that it holds beyond its tensors; 0: not seen yet."""

    connected: bool = True
    """False: its connection ended, and the process may live on (its memory counts until it ends)."""

    said_goodbye: bool = False
    asked: bool = False
    """It wants a turn and has none."""

    has_run: bool = False
    """It asked for a turn at some time, so its memory matters and it owes a profile."""

    remembered: bool = False
    """An agent before this one had it; the process lives and has not come back yet."""

    standing: Standing = field(default_factory=Standing)
    """How far it has followed the orders to its container."""

    granted_iterations: int = 0
    """Its iterations when its turn began."""

    granted_busy_ns: int = 0
    """Its time inside iterations when its turn began."""

    @property
    def framework_bytes(self) -> int:
        """Return what counts for its framework's own memory: its own word, else what the driver saw, else the reserve."""
        told_bytes = self.sizes.framework_bytes if self.sizes else 0
        return told_bytes or self.framework_seen_bytes or self.framework_reserve_bytes

    def take_over(self, earlier: Session) -> None:
        """Go on from an earlier session of the process: what it holds, and what was measured of it."""
        self.sizes = self.sizes or earlier.sizes
        self.report = self.report or earlier.report
        self.framework_seen_bytes = self.framework_seen_bytes or earlier.framework_seen_bytes
        self.has_run = self.has_run or earlier.has_run or earlier.remembered

    def mark_granted(self) -> None:
        """Remember where its counters stood when the turn began."""
        self.asked = False
        self.granted_iterations = self.page.iterations
        self.granted_busy_ns = self.page.busy_ns

    def busy_seconds_since_grant(self, now_ns: int, granted_ns: int) -> float:
        """Return the time inside iterations since its turn began, with the iteration that it is in now."""
        page = self.page
        busy_ns = max(0, page.busy_ns - self.granted_busy_ns)
        if page.inside:
            busy_ns += max(0, now_ns - max(page.boundary_ns, granted_ns))
        return min(busy_ns, max(0, now_ns - granted_ns)) / NANOSECONDS
