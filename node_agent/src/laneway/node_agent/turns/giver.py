"""Giving and taking the turns of one GPU.

A session asks for a turn. If its lane is free it is granted at once. Otherwise the holder of the lane's turn is looked at
until the policy would rather have somebody else run: when its quantum is over, or when it is between iterations for so
long that the lane lies idle. Then it is asked to yield, releases at its next boundary, and the policy's choice is granted
the turn. A holder that does not answer in time loses the turn.

Invariants:

- A lane has one turn at most: a turn keeps busy the lane that it was granted in, and the lane that its tenant is in now.
- A turn is granted only where memory covers it beside the turns that run (:meth:`LaneMemory.has_room`).

A hand-off passes here between one process's release and another's grant, so its way is short: who waits is known
(:class:`Waiting`), whom the policy prefers is known since the holder was asked to yield (``Turn.heir``), and the turn that ends is reckoned up
after the grant of the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from laneway.lanes.turns import SessionView
from laneway.node_agent.clock import Clock
from laneway.node_agent.turns.hold import Hold
from laneway.node_agent.turns.holder_watch import HolderWatch
from laneway.node_agent.turns.memory import LaneMemory
from laneway.node_agent.turns.notices import Notices
from laneway.node_agent.turns.service import service_on_entry
from laneway.node_agent.turns.session import NANOSECONDS, Session
from laneway.node_agent.turns.settings import TurnSettings
from laneway.node_agent.turns.timers import Timers
from laneway.node_agent.turns.turn import Turn, TurnEnd
from laneway.node_agent.turns.turn_log import TurnLog
from laneway.node_agent.turns.waiting import Waiting


class TurnGiver:
    """Gives the turns of all lanes of a GPU."""

    def __init__(
        self,
        memory: LaneMemory,
        settings: TurnSettings,
        clock: Clock,
        timers: Timers,
        log: TurnLog,
        notices: Notices,
    ) -> None:
        self.waits_for_survivors = False
        """No turn is granted until it is known who held one before the agent started."""
        self._memory = memory
        self._settings = settings
        self._clock = clock
        self._log = log
        self._notices = notices
        self._waiting = Waiting(memory)
        self._holders = HolderWatch(self._waiting, settings, clock, timers)
        self._turns: dict[Hold, Turn] = {}
        self._turn_in: dict[int, Turn] = {}
        """The same turns, by the lane that each was granted in."""
        self._numbers: dict[int, int] = {}
        self._idle_lanes: set[int] = set()
        self._unsettled = False
        """Some turn belongs to an earlier lane table: it may keep two lanes busy, and memory has to be counted."""

    @property
    def turns(self) -> Mapping[Hold, Turn]:
        """Return the turns that run, by who holds them."""
        return self._turns

    def request(self, hold: Hold, session: Session) -> None:
        """A process wants a turn."""
        turn = self._turns.get(hold)
        if turn is not None and session in turn.holders:
            session.line.grant(turn.number)
            return
        session.asked = True
        if not session.has_run:
            self._begins(hold, session)
        if turn is not None:
            if turn.yield_asked_seconds is None:
                self._admit(turn, session)
            elif turn.waits_for(session):
                self._admit(turn, session)
                session.page.show_yield()
            return
        now_seconds = self._clock.monotonic()
        if hold.view is None:
            self._enter(hold, now_seconds)
        lane = self._memory.lane_of(hold)
        if lane is not None:
            self._advance(lane, now_seconds)

    def _begins(self, hold: Hold, session: Session) -> None:
        """A process may use memory from its first turn on: what is not known of it yet counts from now."""
        session.has_run = True
        if hold.in_table:
            self.follow(self._memory.measure(hold))

    def release(
        self,
        hold: Hold,
        session: Session,
        number: int,
        iterations: int,
        gpu_seconds: float,
        again: bool = False,
    ) -> None:
        """A process gives a turn back, and wants the next one if ``again``.

        One that it does not hold (any more) is ignored: a revocation may have crossed it.
        """
        turn = self._turns.get(hold)
        if turn is None or turn.number != number or session not in turn.holders:
            if again:
                self.request(hold, session)
            return
        now_seconds = self._clock.monotonic()
        if turn.heir and len(turn.holders) == 1:
            self._hand_over(turn, now_seconds)
        if turn.leaves_seconds is not None and turn.leaves_seconds <= now_seconds:
            session.line.excuse()
        self._count_out(turn, session, now_seconds, iterations, gpu_seconds)
        if not turn.holders:
            session.asked = again
            self._end(turn, TurnEnd.RELEASED, now_seconds)
        elif again:
            self.request(hold, session)

    def leave(self, hold: Hold, session: Session, *, goodbye: bool) -> None:
        """A process cannot be talked to any more: its turn, and its wish for one, are over."""
        now_seconds = self._clock.monotonic()
        session.asked = False
        turn = self._turns.get(hold)
        if turn is not None and session in turn.holders:
            self._count_out(turn, session, now_seconds)
            if not turn.holders:
                self._end(turn, TurnEnd.RELEASED if goodbye else TurnEnd.DIED, now_seconds)
        if hold.view is not None and not hold.wants_turn:
            self._waiting.leave(hold)
            hold.away_since_seconds = now_seconds

    def adopt(self, hold: Hold, session: Session) -> bool:
        """Let a process keep the turn that an agent before this one gave it; returns whether it may.

        Only while nobody knows who held what: later the turn may be somebody else's.
        """
        lane = self._memory.lane_of(hold)
        if not self.waits_for_survivors or lane is None:
            return False
        session.has_run = True
        turn = self._turns.get(hold)
        if turn is None:
            self._begin(hold, lane, self._clock.monotonic(), [session])
        else:
            self._admit(turn, session)
        return True

    def survivors_are_back(self) -> None:
        """It is known who holds a turn: others may be granted theirs."""
        self.waits_for_survivors = False
        self.follow(())

    def revoke_stalled(self) -> None:
        """Take turns away that were asked back for too long, and look after lanes where somebody waits."""
        now_seconds = self._clock.monotonic()
        for turn in tuple(self._turns.values()):
            asked_seconds = turn.yield_asked_seconds
            if asked_seconds is None:
                continue
            if now_seconds - asked_seconds >= self._settings.timeout_seconds:
                self._revoke(turn, now_seconds)
            else:
                self._holders.remind(turn)
        self._advance_all(now_seconds)

    def ask_back(self, hold: Hold) -> None:
        """Ask for the hold's turn, if it has one: it is to pause."""
        turn = self._turns.get(hold)
        if turn is not None:
            self._holders.ask_back(turn)

    # Lanes

    def follow(self, moved: Iterable[Hold]) -> None:
        """Follow a change of lanes: who moved counts its service afresh, and turns that no longer fit are asked back."""
        now_seconds = self._clock.monotonic()
        self._unsettled = True
        self._waiting.follow()
        for turn in self._turns.values():
            turn.heir = ""
        for hold in moved:
            hold.service_seconds = 0.0
            hold.newcomer = True
            if hold.view is not None:
                self._enter(hold, now_seconds)
        for turn in self._turns.values():
            if not self._is_settled(turn):
                self._holders.ask_back(turn)
        self._settle()
        self._advance_all(now_seconds)

    def _settle(self) -> None:
        self._turn_in = {turn.lane: turn for turn in self._turns.values()}
        self._unsettled = not all(self._is_settled(turn) for turn in self._turns.values())

    def _is_settled(self, turn: Turn) -> bool:
        lane = self._memory.lane_of(turn.hold)
        if lane != turn.lane or turn.hold.uncovered:
            return False
        return all(
            other is turn or self._memory.lane_of(other.hold) != lane for other in self._turns.values()
        )

    def _advance_all(self, now_seconds: float) -> None:
        for lane in self._memory.lanes:
            self._advance(lane.id, now_seconds)

    def _advance(self, lane: int, now_seconds: float) -> None:
        """Grant the lane's turn, or look after its holder, where somebody waits for it."""
        if self.waits_for_survivors or not self._waiting.anybody(lane):
            return
        busy = self._busy_with(lane)
        if busy:
            for turn in busy:
                self._holders.note_wanted(turn, now_seconds)
            return
        hold = self._next(lane, now_seconds)
        if hold is None or (self._unsettled and not self._memory.has_room(hold, self._turns)):
            return
        turn = self._begin(hold, lane, now_seconds)
        if self._waiting.anybody(lane):
            self._holders.note_wanted(turn, now_seconds)

    def _next(self, lane: int, now_seconds: float) -> Hold | None:
        """Return whose turn it is, of those who wait for a lane."""
        waiting = self._waiting.views(lane)
        key = waiting[0].key if len(waiting) == 1 else self._settings.policy.choose(waiting, now_seconds)
        return None if key is None else self._memory.hold(key)

    def _busy_with(self, lane: int) -> Sequence[Turn]:
        if not self._unsettled:
            turn = self._turn_in.get(lane)
            return () if turn is None else (turn,)
        return [
            turn
            for turn in self._turns.values()
            if turn.lane == lane or self._memory.lane_of(turn.hold) == lane
        ]

    def _enter(self, hold: Hold, now_seconds: float) -> None:
        """Let a hold wait, from now on or from when it began to."""
        since_seconds = hold.view.waiting_since_seconds if hold.view is not None else now_seconds
        lane = self._memory.lane_of(hold)
        if lane is not None:
            active = (view for view in self._active(lane, now_seconds) if view.key != hold.key)
            members = self._memory.members(lane)
            hold.service_seconds = service_on_entry(hold, active, members, self._settings, now_seconds)
            hold.newcomer = False
        hold.view = hold.see(since_seconds)
        self._waiting.enter(hold)
        turn = None if lane is None else self._turn_in.get(lane)
        if turn is not None and turn.heir:
            heir = self._memory.hold(turn.heir).view
            rivals = [view for view in (heir, hold.view) if view is not None]
            turn.heir = self._settings.policy.choose(rivals, now_seconds) or ""

    def _active(self, lane: int, now_seconds: float) -> Iterator[SessionView]:
        yield from self._waiting.views(lane)
        for turn in self._busy_with(lane):
            yield turn.hold.see(now_seconds, turn.charge_seconds(now_seconds))

    # Granting and taking

    def _begin(
        self, hold: Hold, lane: int, now_seconds: float, sessions: Sequence[Session] | None = None
    ) -> Turn:
        """Begin a turn: of the sessions that asked for one, if nothing else is said."""
        number = self._numbers[lane] = self._numbers.get(lane, 0) + 1
        turn = Turn(number, lane, hold, now_seconds)
        for session in hold.sessions if sessions is None else sessions:
            if session.asked or sessions is not None:
                self._admit(turn, session)
        quantum_seconds = self._settings.quantum_seconds
        if hold.view is not None:
            turn.waited_seconds = now_seconds - hold.view.waiting_since_seconds
            quantum_seconds -= self._settings.policy.surplus_seconds(hold.view)
            self._waiting.leave(hold)
        # Who fills a gap that another left in its iterations makes room as soon as that one is back and preferred.
        fills_gap = lane in self._idle_lanes
        self._idle_lanes.discard(lane)
        turn.quantum_ends_seconds = now_seconds + (0.0 if fills_gap else quantum_seconds)
        hold.counters.turns += 1
        self._turns[hold] = self._turn_in[lane] = turn
        self._log.began(turn)
        return turn

    def _admit(self, turn: Turn, session: Session) -> None:
        turn.holders.append(session)
        session.mark_granted()
        session.line.grant(turn.number)

    def _count_out(
        self,
        turn: Turn,
        session: Session,
        now_seconds: float,
        iterations: int | None = None,
        gpu_seconds: float = 0.0,
    ) -> None:
        """Take a process out of a turn; what its page says counts where its message says less, or does not come."""
        seen_seconds = session.busy_seconds_since_grant(
            int(now_seconds * NANOSECONDS), int(turn.began_seconds * NANOSECONDS)
        )
        seen_iterations = max(0, session.page.iterations - session.granted_iterations)
        turn.count_out(
            session,
            seen_iterations if iterations is None else iterations,
            max(gpu_seconds, seen_seconds),
            now_seconds,
        )
        session.page.show_turn(0)

    def _revoke(self, turn: Turn, now_seconds: float) -> None:
        text = f"asked to yield and did not for {self._settings.timeout_seconds:g} s"
        turn.hold.note = f"lost turn {turn.number} of lane {turn.lane}: {text}"
        for session in tuple(turn.holders):
            self._count_out(turn, session, now_seconds)
            session.line.revoke(turn.number, text)
        self._end(turn, TurnEnd.REVOKED, now_seconds, "stalled")
        self._notices.noted(turn.hold, "TurnRevoked", turn.hold.note)

    def _hand_over(self, turn: Turn, now_seconds: float) -> None:
        """Grant the lane of a turn that ends to its heir, if nothing has happened to that one."""
        heir = self._memory.hold(turn.heir)
        if heir.view is not None and heir.may_run and not self._unsettled:
            turn.holders[0].page.show_turn(0)
            self._vacate(turn)
            self._begin(heir, turn.lane, now_seconds)

    def _vacate(self, turn: Turn) -> None:
        """Leave a lane to others."""
        self._holders.forget(turn)
        if turn.left_idle:
            self._idle_lanes.add(turn.lane)
        del self._turns[turn.hold]
        if (
            self._turn_in.get(turn.lane) is turn
        ):  # after a restart, two processes may have claimed a turn of one lane
            del self._turn_in[turn.lane]

    def _end(self, turn: Turn, end: TurnEnd, now_seconds: float, reason: str = "") -> None:
        hold = turn.hold
        if self._turns.get(hold) is turn:
            self._vacate(turn)
        charge_seconds = turn.charge_seconds(now_seconds)
        hold.service_seconds += charge_seconds
        hold.attained_seconds += charge_seconds
        hold.away_since_seconds = now_seconds
        asked_seconds = turn.leaves_seconds if turn.yield_asked_seconds is None else turn.yield_asked_seconds
        hold.overstayed_seconds = 0.0 if asked_seconds is None else max(0.0, now_seconds - asked_seconds)
        if hold.wants_turn:
            self._enter(hold, now_seconds)
        if self._unsettled:
            self._settle()
            self._advance_all(now_seconds)
        else:
            self._advance(turn.lane, now_seconds)
        self._log.ended(turn, end, reason, now_seconds)
