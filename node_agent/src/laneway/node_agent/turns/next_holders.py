"""Who follows each turn of one GPU, and whether that process is armed.

The next holder is set when its predecessor is told when to yield. It is armed at once, unless memory has to be
counted before it may begin. A successor that has begun (*taken* its turn) can no longer be replaced, only stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from laneway.lanes.turns import TurnPolicy
from laneway.node_agent.turns.armed_hand_off import ArmedHandOffs, ArmedTurn
from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.memory import LaneMemory
from laneway.node_agent.turns.running_turns import RunningTurns
from laneway.node_agent.turns.turn import Turn


class NextHolders:
    """Sets and withdraws the next holders of one GPU's turns."""

    def __init__(
        self,
        memory: LaneMemory,
        running: RunningTurns,
        armed: ArmedHandOffs,
        policy: TurnPolicy,
        stop: Callable[[Turn, ArmedTurn], None],
    ) -> None:
        """Start without turns.

        Args:
            memory: the lane table.
            running: the running turns.
            armed: arms processes.
            policy: which of two waiting leases is next.
            stop: stops a successor that has begun after a turn, and may not.
        """
        self._memory = memory
        self._running = running
        self._armed = armed
        self._policy = policy
        self._stop = stop

    def set(self, turn: Turn, key: str) -> None:
        """Set which lease follows a turn, and arm its process. A successor that has begun stays."""
        armed = self._armed.of(turn)
        if armed is not None and armed.is_taken:
            return
        turn.next_holder = key
        if not self._running.stale:
            self._armed.arm(turn)

    def compare(self, turn: Turn, newcomer: Lease, now_seconds: float) -> None:
        """Let a lease that has just begun to wait follow a turn, if the policy prefers it to the next holder."""
        if turn.next_holder in self._memory.lanes_by_key:
            next_holder = self._memory.lease(turn.next_holder).view
            rivals = [view for view in (next_holder, newcomer.view) if view is not None]
            self.set(turn, self._policy.choose(rivals, now_seconds, turn.mean_weight) or "")

    def successor(self, turn: Turn) -> tuple[Lease, bool]:
        """Return the lease that follows a turn that has a next holder, and whether it has begun."""
        armed = self._armed.of(turn)
        if armed is not None and armed.is_taken:
            return armed.lease, True
        return self._memory.lease(turn.next_holder), False

    def disarm(self, turn: Turn) -> None:
        """Forget the successor of a turn, unless it has begun."""
        armed = self._armed.of(turn)
        if armed is None or not armed.is_taken:
            turn.next_holder = ""
            self.withdraw(turn)  # it may have begun just now

    def disarm_all(self) -> None:
        """Forget the successors of all turns, except those that have begun."""
        for turn in self._running.by_lease.values():
            self.disarm(turn)

    def disarm_outdated(self) -> None:
        """Forget successors that do not wait for the lane of their turn any more."""
        for turn in self._running.by_lease.values():
            if not self._still_follows(turn):
                self.disarm(turn)

    def withdraw(self, turn: Turn) -> None:
        """Disarm the successor of a turn. If it has begun, it is stopped."""
        armed = self._armed.pop(turn)
        if armed is not None and armed.is_taken:
            self._running.use_number(turn.lane, armed.number)
            self._stop(turn, armed)

    def unreleased(self, now_seconds: float, patience_seconds: float) -> Iterator[Turn]:
        """Yield the turns whose successor has begun although they have not been released for so long. Neither
        of the two leases is armed again."""
        for turn in self._armed.taken_turns():
            if turn.taken_since_seconds is None:
                turn.taken_since_seconds = now_seconds
            elif now_seconds - turn.taken_since_seconds >= patience_seconds:
                successor, _ = self.successor(turn)
                turn.lease.may_be_armed = successor.may_be_armed = False
                yield turn

    def _still_follows(self, turn: Turn) -> bool:
        lane = self._memory.lanes_by_key.get(turn.next_holder)
        if lane != turn.lane or not self._running.is_current(turn):
            return False
        next_holder = self._memory.lease(turn.next_holder)
        return next_holder.view is not None and next_holder.may_run
