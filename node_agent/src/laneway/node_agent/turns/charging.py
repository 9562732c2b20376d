"""What a turn costs its lease: the processes' reports, within what the clock allows."""

from __future__ import annotations

from laneway.node_agent.turns.session import NANOSECONDS, Session
from laneway.node_agent.turns.turn import Turn


def remove_process(
    turn: Turn, session: Session, now_seconds: float, iterations: int | None = None, gpu_seconds: float = 0.0
) -> None:
    """Remove a process from its turn. The page's counts apply if the message reports less or is missing.

    Args:
        turn: the turn.
        session: a holder of it.
        now_seconds: the current time (CLOCK_MONOTONIC).
        iterations: what it reports; None: it reports nothing.
        gpu_seconds: what it reports.
    """
    seen_seconds = session.busy_seconds_since_grant(
        int(now_seconds * NANOSECONDS), int(turn.began_seconds * NANOSECONDS)
    )
    if iterations is None:
        iterations = max(0, session.page.iterations - session.granted_iterations)
    turn.remove_process(session, iterations, max(gpu_seconds, seen_seconds), now_seconds)
    session.page.write_turn(0)


def charge_ended_turn(turn: Turn, now_seconds: float) -> None:
    """Charge a turn that has ended to its lease."""
    lease = turn.lease
    since_seconds = turn.contended_since_seconds
    kept_seconds = 0.0 if since_seconds is None else now_seconds - since_seconds
    others_had_seconds = turn.began_seconds - lease.away_since_seconds
    lease.kept_waiting_seconds = kept_seconds + max(
        0.0, lease.kept_waiting_seconds - others_had_seconds / turn.wait_ratio
    )
    lease.charge(turn.charge_seconds(now_seconds))
    lease.gap_wait.end_turn(now_seconds - turn.began_seconds, turn.wait_ratio)
    lease.turn_time.ended_seconds += now_seconds - turn.began_seconds
    lease.away_since_seconds = now_seconds
