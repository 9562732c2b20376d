"""The state of one GPU: its leases, their processes and lanes, and the current turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from laneway.api.container_record import ContainerRecord
from laneway.api.inventory import InventoryGPU
from laneway.api.orders import PodOrder
from laneway.api.quantity import format_bytes
from laneway.api.quota import quota_bytes
from laneway.lanes import LaneRules
from laneway.node_agent.clock import Clock
from laneway.node_agent.turns.counting import template_sizes
from laneway.node_agent.turns.ended_leases import EndedLeases
from laneway.node_agent.turns.event_recorder import EventRecorder
from laneway.node_agent.turns.lane_rate_control import LaneRateControl
from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.memory import LaneMemory
from laneway.node_agent.turns.memory_readings import MemoryReadings
from laneway.node_agent.turns.order_executor import OrderExecutor
from laneway.node_agent.turns.order_state import OrderState
from laneway.node_agent.turns.session import Session, Sizes
from laneway.node_agent.turns.settings import TurnSettings
from laneway.node_agent.turns.stray_report import StrayReport
from laneway.node_agent.turns.timers import Timers
from laneway.node_agent.turns.turn_log import TurnLog
from laneway.node_agent.turns.turn_scheduler import TurnScheduler
from laneway.node_agent.turns.turn_time import TurnUse

_DEVICE_FULL_SECONDS = 10.0
"""How long a failed allocation matters to the watchdog: several readings of the GPU."""


class GPUTurns:
    """Decides for one GPU. Call it from one thread only."""

    def __init__(
        self,
        gpu: InventoryGPU,
        rules: LaneRules,
        settings: TurnSettings,
        clock: Clock,
        timers: Timers,
        log: TurnLog,
        recorder: EventRecorder,
    ) -> None:
        """Start with no lease on the GPU."""
        self.gpu = gpu
        self.memory = LaneMemory(gpu.allocatable_bytes, rules)
        self.scheduler = TurnScheduler(self.memory, settings, clock, timers, log, recorder)
        self.rate_control = LaneRateControl(self.memory, self.scheduler, settings, clock, timers)
        self.scheduler.call_at_overlap(self.rate_control.start)
        self.orders = OrderExecutor(self.memory, self.scheduler, clock, recorder)
        self.order_of: Callable[[ContainerRecord], PodOrder | None] = lambda record: None
        """Returns the order for a container. Called when the container appears and when more is known
        about it."""

        self.leases: dict[str, Lease] = {}
        self.readings = MemoryReadings(self.leases, self.memory, self.scheduler, self.orders, clock, recorder)
        self.ended = EndedLeases()
        self.log = log
        self._clock = clock
        self._recorder = recorder
        self._framework_bytes = settings.framework_bytes
        self._device_full: dict[str, tuple[float, int]] = {}
        """When a container found the GPU full last, and its quota."""
        self.strays = StrayReport()
        """What uses the GPU without a share of it."""

        self.evictions: Counter[tuple[str, str]] = Counter()
        """By namespace and reason: how often the watchdog stopped a container's processes."""

    # Containers

    def allocate(self, record: ContainerRecord) -> Lease:
        """Record a container that holds ids of this GPU, or an update of its record."""
        lease = self.leases.get(record.key)
        if lease is None:
            share_percent = record.shares[self.gpu.uuid]
            lease = Lease(
                record,
                self.gpu.uuid,
                quota_bytes(share_percent, self.gpu.allocatable_bytes),
                holds_all_ids=share_percent >= self.gpu.allocatable_percent,
            )
            self.leases[record.key] = lease
            self.ended.drop(record.key)
        new, known = not lease.in_table and not lease.offloaded, (lease.terms, lease.template)
        lease.record, lease.template = record, template_sizes(record.profile)
        if new:
            self.orders.lanes_changed(self.memory.enter(lease, was_admitted=False))
        elif lease.in_table and known != (lease.terms, lease.template):
            # The plugin learned only now that the job spans GPUs, is exclusive, or uses a template that ran
            # before.
            self.orders.lanes_changed(self.memory.measure(lease) | self.memory.readmit(lease))
        self.orders.set_order(lease, self.order_of(record))
        self._recorder.changed()
        return lease

    def remove_container(self, key: str) -> None:
        """Remove a container whose ids were released. Its processes have ended or no longer count."""
        lease = self.leases.pop(key)
        lease.order, lease.blocked = None, False
        lease.view = None
        for session in lease.sessions:
            session.requested = False
            session.order_state = OrderState()  # or the end of its order would resume it
        for session in tuple(lease.sessions):
            self.disconnect(lease, session, goodbye=False)
            self.process_ended(lease, session)
        if lease.in_table:
            self.orders.lanes_changed(self.memory.leave(lease))
        self.ended.add(lease, self._clock.monotonic())
        self._recorder.changed()

    def forget_ended(self, after_seconds: float) -> None:
        """Drop the figures of containers that ended longer ago than this."""
        if self.ended.drop_before(self._clock.monotonic() - after_seconds):
            self._recorder.changed()

    # Sessions

    def connect(self, lease: Lease, session: Session) -> None:
        """Register a connected process. Orders are applied once it is known whether the process keeps a
        turn."""
        now_seconds = self._clock.monotonic()
        lease.sessions.append(session)
        lease.lost = False
        lease.welcomed = True
        if session.has_iterations:
            lease.no_turns = ""
        if not lease.arrived_seconds:
            lease.arrived_seconds = now_seconds
        if session.order_state.offloaded:
            lease.blocked = True
        self._recorder.changed()

    def disconnect(self, lease: Lease, session: Session, goodbye: bool) -> None:
        """Handle the end of a process's connection: its turn ends, its memory still counts."""
        if not session.connected:
            return
        session.connected = False
        session.said_goodbye = goodbye
        self.scheduler.leave(lease, session, goodbye=goodbye)
        if not lease.connected:
            lease.lost = not goodbye
        self.orders.step(lease)
        self._recorder.changed()

    def process_ended(self, lease: Lease, session: Session) -> None:
        """Handle the end of a disconnected process: its memory no longer counts."""
        if session not in lease.sessions:
            return
        lease.forget_process(session)
        self.scheduler.process_left(lease, session, ended=True)
        if lease.sessions:
            self.orders.lanes_changed(self.memory.measure(lease))
        elif lease.in_table:
            self.orders.lanes_changed(self.memory.start_over(lease))
        else:
            lease.offloaded, lease.counted = False, None
            self.orders.lanes_changed(self.memory.enter(lease, was_admitted=False))
        self.orders.step(lease)
        self._recorder.changed()

    def replace_session(self, lease: Lease, earlier: Session) -> None:
        """Remove an earlier session of a process. The figures continue in its new session."""
        self.disconnect(lease, earlier, goodbye=False)
        lease.sessions.remove(earlier)
        lease.lost = not lease.connected
        self._recorder.changed()

    def _note_remaining(self, lease: Lease) -> None:
        """Record at which attained service the lease's work will be done. Attained service grows while it
        runs."""
        reported_seconds = None if lease.sizes is None else lease.sizes.remaining_seconds
        turn = self.scheduler.turns.get(lease)
        running_seconds = 0.0 if turn is None else turn.charge_seconds(self._clock.monotonic())
        lease.ends_at_seconds = (
            None if reported_seconds is None else lease.attained_seconds + running_seconds + reported_seconds
        )

    def framework_reserve_bytes(self, device: str) -> int:
        """Return the bytes reserved for a process's framework on such a device (``hello``, ``device``)."""
        return self._framework_bytes if device == "cuda" else 0

    @property
    def own_framework_bytes(self) -> int:
        """Return the bytes counted for the framework of a process that uses the GPU itself, in its memory account."""
        return 0 if self.gpu.simulated else self._framework_bytes

    def sample_turn_time(self) -> None:
        """Remember how long each lease has held turns. Called four times a second."""
        now_seconds = self._clock.monotonic()
        for lease in self.leases.values():
            lease.turn_time.sample(now_seconds, self._running_seconds(lease, now_seconds))

    def turn_use(self, lease: Lease) -> TurnUse:
        """Return how long a lease has held turns, and whether others lack them now."""
        now_seconds = self._clock.monotonic()
        running_seconds = self._running_seconds(lease, now_seconds)
        lane = self.memory.lane_of(lease)
        # A lease without a lane gets no turns, so it takes its time from all others.
        rivals = self.leases.values() if lane is None else self.memory.members(lane)
        return TurnUse(
            lease.turn_time.ended_seconds + running_seconds,
            lease.turn_time.recent_ratio(now_seconds, running_seconds),
            any(
                rival is not lease and (rival in self.scheduler.turns or rival.view is not None)
                for rival in rivals
            ),
        )

    def _running_seconds(self, lease: Lease, now_seconds: float) -> float:
        turn = self.scheduler.turns.get(lease)
        return 0.0 if turn is None else now_seconds - turn.began_seconds

    def record_overrun(self, lease: Lease, text: str) -> None:
        """Record that a process hit its memory quota and is about to fail."""
        lease.last_event = text
        self._recorder.record_event(lease, "MemoryQuotaExceeded", text)

    def record_no_turns(self, lease: Lease, text: str) -> None:
        """Record why a process takes no turns. It counts until another one of the container takes them."""
        if text == lease.no_turns:
            return
        lease.no_turns = text
        self._recorder.record_event(lease, "TakesNoTurns", text)

    def record_device_full(self, lease: Lease, text: str) -> None:
        """Record that a process within its quota found the GPU full and is about to fail."""
        self._device_full[lease.key] = self._clock.monotonic(), lease.quota_bytes
        lease.last_event = text
        self._recorder.record_event(lease, "GPUFull", text)

    def found_device_full(self) -> Mapping[str, int]:
        """Return the quotas of the containers that say that they found the GPU full a moment ago, by their keys. They may
        have ended."""
        since_seconds = self._clock.monotonic() - _DEVICE_FULL_SECONDS
        self._device_full = {
            key: (when, quota) for key, (when, quota) in self._device_full.items() if when >= since_seconds
        }
        return {key: quota for key, (_, quota) in self._device_full.items()}

    def check_quotas(self) -> None:
        """Record which containers report holding more than their quota."""
        for lease in self.leases.values():
            held_bytes = lease.held_bytes
            over = held_bytes > lease.quota_bytes
            if over and not lease.over_quota:
                held, quota = format_bytes(held_bytes), format_bytes(lease.quota_bytes)
                lease.over_quota = f"holds {held}, more than its quota of {quota}"
                self._recorder.record_event(lease, "MemoryOverQuota", lease.over_quota)
            elif lease.over_quota and not over:
                lease.over_quota = ""
                self._recorder.changed()

    def measure(self, lease: Lease, session: Session, sizes: Sizes) -> None:
        """Record a process's measurement of itself."""
        session.sizes = sizes
        self._note_remaining(lease)
        covered = not lease.uncovered
        self.orders.lanes_changed(self.memory.measure(lease))
        lease.last_sizes = lease.sizes or lease.last_sizes
        if covered and lease.uncovered:
            self._recorder.record_event(lease, "MemoryNotCovered", lease.uncovered)
        self._recorder.changed()
