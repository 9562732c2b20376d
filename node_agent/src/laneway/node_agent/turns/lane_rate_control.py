"""Keep each lease's share of the GPU's time across lanes, with ``laneway.lanes.rate_control``.

A lane's turns are divided by the turn policy. Between lanes that run in parallel, the device divides time as it
likes. While leases of several lanes are active, each one's progress is compared with its share a few times a
second. If one lacks progress, the lanes share their turns: the turn scheduler treats them as one lane.

Left in parallel are lanes that would have to wait for more than an iteration:

- a lane of a job that spans GPUs. Its workers wait for each other inside an iteration, so one that waits for
  another lane here would keep GPUs elsewhere idle, and two such jobs could wait for each other forever;
- a lane whose holder does not yield. That time is charged to the holder by the clock, and it gets no further
  turn until its lane takes turns with the others again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from laneway.lanes import Lane, RateControl, TenantUse
from laneway.node_agent.clock import Clock
from laneway.node_agent.event_loop import Timer
from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.memory import LaneMemory
from laneway.node_agent.turns.session import NANOSECONDS
from laneway.node_agent.turns.settings import TurnSettings
from laneway.node_agent.turns.timers import Timers
from laneway.node_agent.turns.turn import Turn
from laneway.node_agent.turns.turn_scheduler import TurnScheduler

CONTROL_SECONDS: Final = 0.05
"""How often progress is compared while lanes compete."""

_OVERLAP_SECONDS: Final = 0.01
"""The same while a lane runs beside the others to find out what that gains, or is to as soon as a turn allows it."""

_REST: Final = 9
"""A comparison is followed by a pause of this many times its duration: with many tenants it takes milliseconds, and turns have to
go on."""

_IDLE_SECONDS: Final = 0.2
"""How often to check whether holders of several lanes compute again: a holder keeps its turn while it is idle."""

_LATE_YIELD_SECONDS: Final = 1.0
"""A holder that has not yielded after this time and its iteration's no longer holds up the other lanes."""

_LONGEST_ITERATION_SECONDS: Final = 5.0
"""Other lanes wait no longer for an iteration, because its time is what the holder reports."""


class LaneRateControl:
    """Serves one GPU. It has a timer only while leases of several lanes hold or want turns."""

    def __init__(
        self,
        memory: LaneMemory,
        scheduler: TurnScheduler,
        settings: TurnSettings,
        clock: Clock,
        timers: Timers,
    ) -> None:
        self._control = RateControl()
        self._memory = memory
        self._scheduler = scheduler
        self._settings = settings
        self._clock = clock
        self._timers = timers
        self._timer: Timer | None = None
        self._late: frozenset[Lease] = frozenset()
        """Holders that yield late now."""

        self._withheld: frozenset[Lease] = frozenset()
        """These, and those whose late turn has ended, until the lanes take turns."""

        self._overlapping: Lease | None = None
        """It has a turn beside the holder of the lanes' common turn, and gets no second one."""

        self._waiting_since_seconds = 0.0
        """Since when it waited for that turn."""

    def start(self) -> None:
        """Begin to compare progress, because turns of several lanes run at once."""
        if self._timer is None and self._settings.policy.promises_shares:
            self._set_timer(self._clock.monotonic() + CONTROL_SECONDS)

    def progress_ratios(self) -> Mapping[str, float]:
        """Return the recent progress of leases that compete across lanes, as a part of their progress alone."""
        return self._control.progress_ratios() if self._control.contended else {}

    def _set_timer(self, due_seconds: float) -> None:
        if self._timer is not None:  # turns that a comparison lets begin start the next one
            self._timer.cancel()
        self._timer = self._timers.call_at(due_seconds, self._compare)

    def _compare(self) -> None:
        self._timer = None
        now_seconds = self._clock.monotonic()
        self._withhold_from_late_holders(now_seconds)
        lanes = {lane.id: lane for lane in self._memory.lanes if self._may_wait(lane)}
        uses = [
            self._use(lease, lane, now_seconds)
            for lane in self._memory.lanes
            for lease in self._leases(lane)
            if lane.id in lanes or lease in self._late
        ]
        serial = self._control.observe(uses, now_seconds)
        overlap = self._control.overlap
        if overlap is None:
            self._share_turns(frozenset(lanes) if serial else frozenset(), now_seconds)
            self._end_overlap()
        else:
            self._overlap(self._memory.lease(overlap.key), frozenset(lanes) - {overlap.lane}, now_seconds)
        self._end_withholding(serial)
        if self._control.contended:
            often = overlap is not None or self._control.overlap_due
            interval_seconds = _OVERLAP_SECONDS if often else CONTROL_SECONDS
            ended_seconds = self._clock.monotonic()
            rest_seconds = _REST * (ended_seconds - now_seconds)
            self._set_timer(max(now_seconds + interval_seconds, ended_seconds + rest_seconds))
        elif len(self._scheduler.turns) > 1 or self._withheld:
            self._set_timer(now_seconds + _IDLE_SECONDS)

    def _leases(self, lane: Lane) -> Iterator[Lease]:
        return (self._memory.lease(key) for key in lane.tenants)

    def _may_wait(self, lane: Lane) -> bool:
        """Return whether a lane may take turns with others."""
        return not any(lease.record.spans_gpus or lease in self._late for lease in self._leases(lane))

    def _withhold_from_late_holders(self, now_seconds: float) -> None:
        """Withhold further turns from holders that yield late."""
        self._late = frozenset(
            lease
            for lease, turn in self._scheduler.turns.items()
            if not lease.record.spans_gpus and self._yields_late(turn, now_seconds)
        )
        self._withheld |= self._late
        for lease in self._late:
            lease.withheld = True

    def _end_withholding(self, serial: bool) -> None:
        """Let those whose late turn has ended have turns again, once the policy compares them with the others.

        While a holder of another lane moves to the common turn, it is not in the queue for a moment.
        """
        turns = self._scheduler.turns
        moved = serial and any(lease not in self._late for lease in turns)
        moved = moved and all(
            turn.lane == self._memory.lane_of(lease)
            for lease, turn in turns.items()
            if lease not in self._late
        )
        back = frozenset(
            lease
            for lease in self._withheld - self._late
            if moved or not self._control.contended or not self._control.is_overdrawn(lease.key)
        )
        self._withheld -= back
        for lease in back:
            lease.withheld = False
        if back:
            self._scheduler.lanes_changed(())

    def _yields_late(self, turn: Turn, now_seconds: float) -> bool:
        counted = turn.lease.counted
        iteration_seconds = 0.0 if counted is None else counted.iteration_seconds
        asked_seconds = turn.yield_requested_seconds
        return asked_seconds is not None and (
            now_seconds - asked_seconds
            > _LATE_YIELD_SECONDS + min(iteration_seconds, _LONGEST_ITERATION_SECONDS)
        )

    def _use(self, lease: Lease, lane: Lane, now_seconds: float) -> TenantUse:
        turn = self._scheduler.turns.get(lease)
        # Processes that train side by side count iterations alike, so one of them stands for all.
        sessions = lease.sessions
        page = sessions[0].page if sessions else None
        if len(sessions) > 1:
            page = max((each.page for each in sessions), key=lambda each: each.iterations)
        running_seconds = 0.0 if turn is None else turn.charge_seconds(now_seconds)
        withheld = lease in self._withheld or lease is self._overlapping
        waits = lease.view is not None and (lease.may_run or withheld)
        return TenantUse(
            key=lease.key,
            lane=lane.id,
            weight=lease.weight,
            iterations=0 if page is None else page.iterations,
            busy_seconds=0.0 if page is None else page.busy_ns / NANOSECONDS,
            # A holder that says that it is idle, and computes beside the other lanes, competes with them.
            inside=turn is not None and (lease.computes or turn.is_inside),
            turns=lease.counters.turns,
            charged_seconds=lease.attained_seconds + running_seconds,
            waited_seconds=lease.turn_time.waited_seconds,
            waiting_since_seconds=lease.view.waiting_since_seconds if lease.view and waits else None,
            turn_began_seconds=None if turn is None else turn.began_seconds,
            turn_ends_seconds=None if turn is None else turn.quantum_ends_seconds,
            may_overlap=self._may_overlap(lease, lane),
            late=lease in self._late,
        )

    def _may_overlap(self, lease: Lease, lane: Lane) -> bool:
        """Return whether a lease has the next turn of the lanes, and a lane that it could run in beside them.

        The lanes' common turn goes by the first of them, so that lane stays.
        """
        turns = self._scheduler.turns
        if not any(turn.next_holder == lease.key for turn in turns.values()):
            return False
        return lane.id != self._memory.lane_of(lease) and not any(
            each in turns or (each.view is not None and each is not lease) for each in self._leases(lane)
        )

    def _overlap(self, lease: Lease, others: frozenset[int], now_seconds: float) -> None:
        """Let a lease have one turn beside the other lanes, of an iteration if those are not very short."""
        begins = self._overlapping is None
        if begins and lease.view is not None:
            self._waiting_since_seconds = lease.view.waiting_since_seconds
        self._share_turns(others, now_seconds)
        if begins:
            self._overlapping = lease
            lease.withheld = True
        else:
            self._scheduler.request_yield(lease)

    def _end_overlap(self) -> None:
        """Let the lease of the overlap take turns again. It has its place in line back, and what the overlap cost
        is not charged."""
        lease = self._overlapping
        if lease is None:
            return
        self._overlapping = None
        lease.withheld = lease in self._withheld
        if lease.view is not None:
            lease.view = lease.to_view(self._waiting_since_seconds)
        key, seconds = self._control.overcharged_seconds()
        if key == lease.key:
            lease.refund(seconds)
        self._scheduler.lanes_changed(())

    def _share_turns(self, lanes: frozenset[int], now_seconds: float) -> None:
        before = self._memory.sharing_turns
        if lanes == before:
            return
        if not before:
            self._set_first_services(now_seconds)
        # A turn that others waited for is charged by the clock until it ends, also while its holder is idle.
        for lease in self._scheduler.turns:
            if self._memory.memory_lane_of(lease) in before - lanes:
                self._scheduler.request_yield(lease)
        self._memory.share_turns(lanes)
        self._scheduler.lanes_changed(())

    def _set_first_services(self, now_seconds: float) -> None:
        services = self._control.first_services()
        for key, service_seconds in services.items():
            lease = self._memory.lease(key)
            turn = self._scheduler.turns.get(lease)
            # The running turn is charged when it ends, with all of its time.
            lease.service_seconds = service_seconds - (
                0.0 if turn is None else turn.charge_seconds(now_seconds)
            )
            if lease.view is not None:
                lease.view = lease.to_view(lease.view.waiting_since_seconds)
