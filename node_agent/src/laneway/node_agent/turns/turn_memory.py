"""Whether memory allows a turn of one GPU: beside the running turns, and the memory that ended turns keep.

A turn that ends in any other way than by its release keeps its lane, and its memory counts, until the process has
released it (:class:`PendingReleases`). So does cached memory that a lease may not keep any more.
"""

from __future__ import annotations

from laneway.node_agent.turns.armed_hand_off import ArmedHandOffs
from laneway.node_agent.turns.cached_memory import CachedMemory
from laneway.node_agent.turns.event_recorder import EventRecorder
from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.memory import LaneMemory
from laneway.node_agent.turns.next_holders import NextHolders
from laneway.node_agent.turns.pending_releases import PendingRelease, PendingReleases
from laneway.node_agent.turns.release_limit import release_limit_seconds, spanning_limit_seconds
from laneway.node_agent.turns.running_turns import RunningTurns
from laneway.node_agent.turns.session import Session
from laneway.node_agent.turns.settings import TurnSettings
from laneway.node_agent.turns.turn import Turn


class TurnMemory:
    """Counts memory for the turns of one GPU. While a release is pending, turns are stale and none is armed."""

    def __init__(
        self,
        memory: LaneMemory,
        running: RunningTurns,
        armed: ArmedHandOffs,
        next_holders: NextHolders,
        settings: TurnSettings,
        recorder: EventRecorder,
    ) -> None:
        self.pending = PendingReleases(memory.table.rules)
        """The turns that ended before their memory was released."""
        self._memory = memory
        self._running = running
        self._armed = armed
        self._next_holders = next_holders
        self._settings = settings
        self._recorder = recorder
        self._cached = CachedMemory(memory)

    def fits(self, lease: Lease) -> bool:
        """Return whether memory covers the lease beside all that runs or has not released its memory."""
        running = [*self._running.by_lease, *self._armed.taken_leases()]
        return self._memory.fits(lease, running, self.pending)

    def may_begin(self, lease: Lease, lane: int, now_seconds: float) -> bool:
        """Return whether pending releases and turns of an earlier table leave the lane and enough memory."""
        occupying = self.pending.blocking(lane, self._memory.lanes_by_key, lease)
        if not occupying and self.fits(lease):
            return True
        for each in occupying or self.pending:
            if each.blocking_since_seconds is None and each.lease is not lease:
                each.blocking_since_seconds = now_seconds
                self._recorder.changed()
        return False

    def blocked_by(self, lease: Lease) -> PendingRelease | None:
        """Return the pending release for whose memory a lease waits; None if it waits for none."""
        lane = self._memory.lane_of(lease)
        if not self.pending or lane is None or not lease.wants_turn or not lease.may_run:
            return None
        blocking = self.pending.blocking(lane, self._memory.lanes_by_key, lease)
        return next((each for each in blocking if each.blocking_since_seconds is not None), None)

    def may_keep_cache(self, lease: Lease) -> bool:
        """Return whether a lease keeps its cached memory when it releases a turn."""
        return self._cached.may_keep(lease)

    def keeps_cache(self, lease: Lease) -> bool:
        """Return whether a lease has kept cached memory, as it may."""
        return self._cached.may_keep(lease) and any(session.page.kept_memory for session in lease.sessions)

    def release_limit_seconds(self, lease: Lease) -> float:
        """Return how long a lease may take to release its turn after a request to yield."""
        first = any(session.in_first_iteration for session in lease.sessions)
        return release_limit_seconds(
            lease.counted,
            self._settings.timeout_seconds,
            self._settings.longest_first_iteration_seconds if first else None,
        )

    def revocation_limit_seconds(self, lease: Lease) -> float:
        """Return that time, or longer for a worker that may wait for a worker elsewhere inside its iteration."""
        settings = self._settings
        if lease.record.spans_gpus:
            return spanning_limit_seconds(
                settings.timeout_seconds, settings.longest_first_iteration_seconds, settings.kill_seconds
            )
        return self.release_limit_seconds(lease)

    def release_later(self, turn: Turn, session: Session, cause: str, now_seconds: float) -> None:
        """Keep the lane of an ended turn, and the memory of its lease, until the process has released it."""
        lease = turn.lease
        patience_seconds = (
            self._settings.timeout_seconds
            if turn.yield_requested_seconds is not None
            else self.revocation_limit_seconds(lease)
        )
        release = PendingRelease(lease, turn.lane, turn.number, lease.tenant(), cause, patience_seconds)
        session.page.write_keeps_memory(False)
        self.pending.add(release, session.pid, now_seconds)
        self._running.stale = True
        self._next_holders.disarm_all()  # memory has to be counted before the next turn begins

    def process_left(self, lease: Lease, session: Session, now_seconds: float, *, ended: bool) -> bool:
        """Record that a process is outside an iteration, or has ended. One that keeps cached memory is asked to
        free it first, if others wait for that. Return whether a release is over with that."""
        if not ended and session.page.kept_memory and self.pending.of(lease, session.pid) is not None:
            session.page.write_keeps_memory(False)
            session.channel.free_memory()
            return False
        return self.pending.process_left(lease, session.pid, now_seconds, ended=ended)

    def update_cached(self, now_seconds: float) -> None:
        """Ask for the cached memory of leases that may not keep it any more. Their lanes wait for it."""
        for lease in self._cached.update():
            turn, lane = self._running.by_lease.get(lease), self._memory.lane_of(lease)
            for session in lease.sessions:
                session.page.write_keeps_memory(False)
                if session.page.kept_memory and (turn is None or session not in turn.holders):
                    # Without a lane, as of a paused lease, only its memory counts.
                    kept = Turn(0, -1 if lane is None else lane, lease, now_seconds)
                    self.release_later(kept, session, "keeps cached memory", now_seconds)
                    session.channel.free_memory()

    def report_overdue(self, now_seconds: float) -> None:
        """Record releases that others have waited for too long."""
        for overdue in self.pending.mark_overdue(now_seconds):
            self._recorder.record_event(overdue.lease, "TurnNotReleased", overdue.lease.overdue_release)

    def refresh_stale_turns(self) -> None:
        """Find out whether memory still has to be counted before a turn begins."""
        self._running.refresh(unsettled=bool(self.pending) or any(self._armed.taken_turns()))
