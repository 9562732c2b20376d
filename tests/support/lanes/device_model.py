"""A GPU on which tenants in lanes of their own train: processor sharing with interference, in steps of a few milliseconds.

Kernels of tenants that run at the same time share the device. A tenant needs a part of it, its demand, to run at full speed;
where the demands exceed the device, all are slowed alike. Every two that run side by side cost some speed (interference).
The lanes take turns, chosen by FAIR, as long as the rate control says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from laneway.lanes.overlap import Overlap
from laneway.lanes.rate_control import RateControl
from laneway.lanes.tenant_use import TenantUse
from laneway.lanes.turns import Fair, SessionView

STEP_SECONDS = 0.005
QUANTUM_SECONDS = 0.1
CONTROL_SECONDS = 0.05


@dataclass(slots=True, eq=False)
class ModelTenant:
    """A tenant that trains from its arrival until it leaves."""

    weight: int
    iteration_seconds: float = 0.02
    """An iteration's time alone on the device."""

    gap_seconds: float = 0.0
    """Time between two iterations for which the device is not needed."""

    gap_spread: float = 0.0
    """By which part that time varies, up and down."""

    demand: float = 1.0
    """The part of the device that it needs to run at full speed."""

    arrives_seconds: float = 0.0
    leaves_seconds: float = float("inf")
    reported_iterations: float = 1.0
    """The iterations that it reports for each one."""

    reported_busy: float = 1.0
    """The time that it reports for each second inside an iteration."""

    progress_seconds: float = 0.0
    """What it has done, in seconds of the device alone."""

    device_alone_seconds: float = 0.0
    """For how long nobody else used the device while it held a turn."""

    key: str = ""
    done_seconds: float = 0.0
    """Of the current iteration."""

    gap_left_seconds: float = 0.0
    completed: int = 0
    busy_seconds: float = 0.0
    inside_seconds: float = 0.0
    """Of the current iteration, by the wall clock."""

    turns: int = 0
    charged_seconds: float = 0.0
    service_seconds: float = 0.0
    waited_seconds: float = 0.0
    """For its turns so far."""

    waiting_since: float | None = None
    turn_began: float | None = None
    turn_seconds: float = 0.0
    """How long its current turn is to last."""

    may_overlap: bool = False
    """It has the next turn, and could have it beside the holder now."""

    fills_gap: bool = False
    """It has the turn while another tenant is between iterations, and returns it after one."""

    @property
    def in_gap(self) -> bool:
        return self.gap_left_seconds > 0.0

    def use(self, lane: int) -> TenantUse:
        """Return what the agent sees of it."""
        return TenantUse(
            key=self.key,
            lane=lane,
            weight=self.weight,
            iterations=int(self.completed * self.reported_iterations),
            busy_seconds=self.busy_seconds * self.reported_busy,
            inside=self.turn_began is not None and not self.in_gap,
            turns=self.turns,
            charged_seconds=self.charged_seconds,
            waited_seconds=self.waited_seconds,
            waiting_since_seconds=self.waiting_since,
            turn_began_seconds=self.turn_began,
            turn_ends_seconds=None if self.turn_began is None else self.turn_began + self.turn_seconds,
            may_overlap=self.may_overlap,
        )


@dataclass(slots=True)
class DeviceModel:
    """One GPU, its tenants and the rate control over them; without one, the lanes always run in parallel."""

    tenants: Sequence[ModelTenant]
    interference: float = 0.0
    """The part of its speed that the device loses while several tenants run."""

    control: RateControl | None = field(default_factory=RateControl)
    now: float = 0.0
    _next_control: float = 0.0
    _idle: bool = False
    overlaps: int = 0
    """How many there were."""

    _random: Random = field(default_factory=lambda: Random(0))
    _overlapped: Overlap | None = None
    """The overlap in which its tenant has had its turn."""

    def __post_init__(self) -> None:
        for number, tenant in enumerate(self.tenants):
            tenant.key = f"tenant-{number}"

    def run(self, seconds: float) -> None:
        """Let time pass."""
        until = self.now + seconds
        while self.now < until:
            self._step()

    def _present(self) -> list[ModelTenant]:
        return [each for each in self.tenants if each.arrives_seconds <= self.now < each.leaves_seconds]

    def _step(self) -> None:
        present = self._present()
        for tenant in self.tenants:
            if tenant not in present:
                tenant.turn_began = tenant.waiting_since = None
        if self.control is not None and self.now >= self._next_control:
            self._next_control = self.now + CONTROL_SECONDS
            self._decide(present)
        for tenant in present:
            if tenant.turn_began is None and tenant.waiting_since is None and not tenant.in_gap:
                tenant.waiting_since = self.now
                if tenant.turns == 0:
                    rivals = [self._view(each) for each in present if each.turns > 0]
                    tenant.service_seconds = Fair(QUANTUM_SECONDS).enter(self._view(tenant), rivals)
        self._grant(present)
        self._compute(present)
        self.now += STEP_SECONDS

    @property
    def serial(self) -> bool:
        return self.control is not None and self.control.serial

    def _decide(self, present: Sequence[ModelTenant]) -> None:
        assert self.control is not None
        before = self.control.serial
        waiting = [self._view(each) for each in present if each.waiting_since is not None]
        following = (
            Fair(QUANTUM_SECONDS).choose(waiting, self.now, _mean_weight(present)) if self.serial else None
        )
        for number, tenant in enumerate(self.tenants):
            tenant.may_overlap = number > 0 and tenant.key == following
        overlapped = self.control.overlap is not None
        uses = [each.use(number) for number, each in enumerate(self.tenants) if each in present]
        if self.control.observe(uses, self.now) and not before:
            services = self.control.first_services()
            for tenant in present:
                tenant.service_seconds = services[tenant.key]
        if overlapped and self.control.overlap is None:
            key, seconds = self.control.overcharged_seconds()
            for tenant in present:
                tenant.service_seconds -= seconds if tenant.key == key else 0.0
        if self.control.overlap is not None or self.control.overlap_due:
            self._next_control = self.now + STEP_SECONDS

    def _next_holders(self, present: Sequence[ModelTenant]) -> list[ModelTenant]:
        """Return those that begin a turn now."""
        waiting = [each for each in present if each.waiting_since is not None]
        if not self.serial:
            return waiting
        assert self.control is not None
        overlap = self.control.overlap
        if overlap is not None and overlap is not self._overlapped:
            self._overlapped = overlap
            self.overlaps += 1
            return [each for each in waiting if each.key == overlap.key]
        beside = [each for each in present if overlap is not None and each.key == overlap.key]
        if any(each.turn_began is not None for each in present if each not in beside):
            return []
        rivals = [self._view(each) for each in waiting if each not in beside]
        key = Fair(QUANTUM_SECONDS).choose(rivals, self.now, _mean_weight(present))
        return [each for each in waiting if each.key == key]

    def _grant(self, present: Sequence[ModelTenant]) -> None:
        for tenant in self._next_holders(present):
            quanta = Fair(QUANTUM_SECONDS).turn_quanta(self._view(tenant), _mean_weight(present))
            tenant.turn_seconds = QUANTUM_SECONDS * quanta
            if tenant.waiting_since is not None:
                tenant.waited_seconds += self.now - tenant.waiting_since
            tenant.waiting_since, tenant.turn_began = None, self.now
            tenant.turns += 1
            tenant.fills_gap, self._idle = self.serial and self._idle, False

    def _view(self, tenant: ModelTenant) -> SessionView:
        since = self.now if tenant.waiting_since is None else tenant.waiting_since
        return SessionView(tenant.key, 0.0, since, gpu_seconds=tenant.service_seconds, weight=tenant.weight)

    def _compute(self, present: Sequence[ModelTenant]) -> None:
        running = [each for each in present if each.turn_began is not None and not each.in_gap]
        demand = sum(each.demand for each in running)
        speed = (1.0 - self.interference if len(running) > 1 else 1.0) / max(1.0, demand)
        for tenant in present:
            if tenant.in_gap:
                tenant.gap_left_seconds -= STEP_SECONDS
            if tenant not in running:
                continue
            tenant.progress_seconds += speed * STEP_SECONDS
            tenant.done_seconds += speed * STEP_SECONDS
            tenant.inside_seconds += STEP_SECONDS
            tenant.charged_seconds += STEP_SECONDS
            tenant.service_seconds += STEP_SECONDS
            if len(running) == 1:
                tenant.device_alone_seconds += STEP_SECONDS
            if tenant.done_seconds >= tenant.iteration_seconds - 1e-9:
                self._end_iteration(tenant)

    def _end_iteration(self, tenant: ModelTenant) -> None:
        tenant.busy_seconds += tenant.inside_seconds
        tenant.done_seconds = tenant.inside_seconds = 0.0
        tenant.completed += 1
        spread = self._random.uniform(-tenant.gap_spread, tenant.gap_spread) if tenant.gap_spread else 0.0
        tenant.gap_left_seconds = tenant.gap_seconds * (1.0 + spread)
        assert tenant.turn_began is not None
        over = tenant.fills_gap or self.now + STEP_SECONDS - tenant.turn_began >= tenant.turn_seconds - 1e-9
        self._idle = tenant.in_gap
        if tenant.in_gap or (self.serial and (over or self._is_of_parallel_phase(tenant))):
            tenant.turn_began = None
            tenant.waiting_since = None if tenant.in_gap else self.now + STEP_SECONDS

    def _is_of_parallel_phase(self, tenant: ModelTenant) -> bool:
        assert self.control is not None
        if self.control.overlap is not None:
            return tenant.key == self.control.overlap.key
        return sum(each.turn_began is not None for each in self.tenants) > 1


def _mean_weight(tenants: Sequence[ModelTenant]) -> float:
    return sum(each.weight for each in tenants) / len(tenants)
