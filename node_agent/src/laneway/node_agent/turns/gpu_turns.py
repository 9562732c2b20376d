"""All of one GPU: who holds a share of it, with which processes, in which lane, and whose turn it is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from laneway.api.container_record import ContainerRecord
from laneway.api.inventory import InventoryGPU
from laneway.api.orders import PodOrder
from laneway.api.quantity import format_bytes
from laneway.api.quota import quota_bytes
from laneway.lanes import LaneRules
from laneway.node_agent.clock import Clock
from laneway.node_agent.orders.following import OrderFollower
from laneway.node_agent.turns.counting import template_sizes
from laneway.node_agent.turns.ended import EndedHolds
from laneway.node_agent.turns.giver import TurnGiver
from laneway.node_agent.turns.hold import Hold
from laneway.node_agent.turns.memory import LaneMemory
from laneway.node_agent.turns.notices import Notices
from laneway.node_agent.turns.session import Session, Sizes
from laneway.node_agent.turns.settings import TurnSettings
from laneway.node_agent.turns.timers import Timers
from laneway.node_agent.turns.turn_log import TurnLog

_CHANGE_PERCENT = 5
"""A framework's memory that changed by less is as it was."""


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
        notices: Notices,
    ) -> None:
        """Begin with nobody on the GPU."""
        self.gpu = gpu
        self.memory = LaneMemory(gpu.allocatable_bytes, rules)
        self.giver = TurnGiver(self.memory, settings, clock, timers, log, notices)
        self.orders = OrderFollower(self.memory, self.giver, clock, settings.timeout_seconds, notices)
        self.order_of: Callable[[ContainerRecord], PodOrder | None] = lambda record: None
        """Says what a container is ordered to do; asked when it comes, and when more is known of it."""

        self.holds: dict[str, Hold] = {}
        self.ended = EndedHolds()
        self.log = log
        self._clock = clock
        self._notices = notices
        self._framework_bytes = settings.framework_bytes

    # Containers

    def allocate(self, record: ContainerRecord) -> Hold:
        """Take note of a container that holds ids of this GPU, or of news about one."""
        hold = self.holds.get(record.key)
        if hold is None:
            share_percent = record.shares[self.gpu.uuid]
            hold = Hold(record, self.gpu.uuid, quota_bytes(share_percent, self.gpu.allocatable_bytes))
            self.holds[record.key] = hold
            self.ended.drop(record.key)
        known = hold.terms, hold.template
        hold.record, hold.template = record, template_sizes(record.profile)
        if hold.in_table and known != (hold.terms, hold.template):
            # The plugin learnt only now that the job spans GPUs, wants one to itself, or is of a template that ran before.
            self.orders.follow(self.memory.measure(hold) | self.memory.readmit(hold))
        self.orders.take(hold, self.order_of(record))
        self._notices.changed()
        return hold

    def forget(self, key: str) -> None:
        """Let a container go whose ids were given back. Its processes are gone, or do not count any more."""
        hold = self.holds[key]
        hold.order, hold.held_back = None, False
        hold.view = None
        for session in hold.sessions:
            session.asked = False
        for session in tuple(hold.sessions):
            self.part(hold, session, goodbye=False)
            self.process_ended(hold, session)
        del self.holds[key]
        self.ended.add(hold, self._clock.monotonic())
        self._notices.changed()

    def forget_ended(self, after_seconds: float) -> None:
        """Drop the figures of containers that have been gone for so long."""
        if self.ended.drop_before(self._clock.monotonic() - after_seconds):
            self._notices.changed()

    # Sessions

    def join(self, hold: Hold, session: Session) -> None:
        """A process of the container connected. Orders are followed once it is known whether it keeps a turn."""
        now_seconds = self._clock.monotonic()
        hold.sessions.append(session)
        hold.lost = False
        hold.welcomed = True
        if not hold.arrived_seconds:
            hold.arrived_seconds = now_seconds
        if session.standing.offloaded:
            hold.held_back = True
        if not hold.in_table and not hold.offloaded:
            self.orders.follow(self.memory.enter(hold))
        self._notices.changed()

    def part(self, hold: Hold, session: Session, goodbye: bool) -> None:
        """A process's connection ended: its turn is over, its memory still counts."""
        if not session.connected:
            return
        session.connected = False
        session.said_goodbye = goodbye
        self.giver.leave(hold, session, goodbye=goodbye)
        if not hold.connected:
            hold.lost = not goodbye
        self.orders.step(hold)
        self._notices.changed()

    def process_ended(self, hold: Hold, session: Session) -> None:
        """A process that had parted is no more: neither is its memory."""
        if session not in hold.sessions:
            return
        hold.forget_process(session)
        if hold.in_table:
            self.orders.follow(self.memory.measure(hold) if hold.sessions else self.memory.leave(hold))
        elif not hold.sessions:
            hold.offloaded, hold.counted = False, None
        self.orders.step(hold)
        self._notices.changed()

    def replaced(self, hold: Hold, earlier: Session) -> None:
        """A process has another session now, whose figures go on from the earlier one's."""
        self.part(hold, earlier, goodbye=False)
        hold.sessions.remove(earlier)
        hold.lost = not hold.connected
        self._notices.changed()

    def _note_remaining(self, hold: Hold) -> None:
        """Take note of when a hold will have done its work, in attained service, which goes on while it runs."""
        told_seconds = None if hold.sizes is None else hold.sizes.remaining_seconds
        turn = self.giver.turns.get(hold)
        running_seconds = 0.0 if turn is None else turn.charge_seconds(self._clock.monotonic())
        hold.ends_at_seconds = (
            None if told_seconds is None else hold.attained_seconds + running_seconds + told_seconds
        )

    def framework_reserve_bytes(self, device: str) -> int:
        """Return what counts for the framework's own memory of a process on such a device (``hello``, ``device``)."""
        return self._framework_bytes if device == "cuda" else 0

    def saw_memory(self, bytes_by_pid: Mapping[int, int]) -> None:
        """Take note of what the driver says that processes hold.

        Beyond its tensors that is the framework's own, as long as the process has had no turn since the look before this one:
        it has then given back what its allocator had cached.
        """
        for hold in self.holds.values():
            turns = None if hold in self.giver.turns else hold.counters.turns
            still = turns is not None and turns == hold.turns_at_look
            hold.turns_at_look = turns
            for session in hold.sessions if still else ():
                used_bytes = bytes_by_pid.get(session.pid)
                if used_bytes is None or not session.framework_reserve_bytes:
                    continue
                seen_bytes = max(0, used_bytes - session.page.held_bytes)
                known_bytes = session.framework_seen_bytes
                if abs(seen_bytes - known_bytes) * 100 > _CHANGE_PERCENT * max(seen_bytes, known_bytes):
                    session.framework_seen_bytes = seen_bytes
                    self.orders.follow(self.memory.measure(hold) if hold.in_table else ())
                    hold.last_sizes = hold.sizes or hold.last_sizes
                    self._notices.changed()

    def overran(self, hold: Hold, text: str) -> None:
        """A process hit its memory quota and is about to fail."""
        hold.note = text
        self._notices.noted(hold, "MemoryQuotaExceeded", text)

    def compare_with_quotas(self) -> None:
        """Note who says that it holds more than its share entitles to."""
        for hold in self.holds.values():
            held_bytes = hold.held_bytes
            over = held_bytes > hold.quota_bytes
            if over and not hold.over_quota:
                held, quota = format_bytes(held_bytes), format_bytes(hold.quota_bytes)
                hold.over_quota = f"holds {held}, more than its quota of {quota}"
                self._notices.noted(hold, "MemoryOverQuota", hold.over_quota)
            elif hold.over_quota and not over:
                hold.over_quota = ""
                self._notices.changed()

    def measure(self, hold: Hold, session: Session, sizes: Sizes) -> None:
        """A process measured itself."""
        session.sizes = sizes
        self._note_remaining(hold)
        covered = not hold.uncovered
        self.orders.follow(self.memory.measure(hold))
        hold.last_sizes = hold.sizes or hold.last_sizes
        if covered and hold.uncovered:
            self._notices.noted(hold, "MemoryNotCovered", hold.uncovered)
        self._notices.changed()
