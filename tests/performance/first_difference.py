"""Finds the first moment at which two simulations of one trace differ."""

from __future__ import annotations

from dataclasses import dataclass

from laneway.simulator import Simulation
from laneway.simulator.history import Phase


@dataclass(frozen=True, slots=True)
class Difference:
    """The first moment at which one simulation did what the other did not."""

    at_seconds: float
    job: str
    """The first, by name, that starts or stops then in one simulation only."""

    text: str
    """What starts and stops at that moment in the one and not in the other, as a clause for people."""

    finish_elsewhere: int
    """How many jobs finish at another moment, in the end."""


def first_difference(one: Simulation, other: Simulation, one_name: str, other_name: str) -> Difference | None:
    """Return where two simulations part; None: every job runs at the same times in both.

    Args:
        one: run to its end.
        other: the same trace and nodes, run to its end.
        one_name: what the text calls the first simulation.
        other_name: what the text calls the second simulation.
    """
    turns, other_turns = _turns(one), _turns(other)
    apart = sorted(turns ^ other_turns)
    if not apart:
        return None
    at_seconds = apart[0][0]
    clauses = [
        f"in {name} {_said([turn for turn in apart if turn[0] == at_seconds and turn in its], simulation)}"
        for name, its, simulation in ((one_name, turns, one), (other_name, other_turns, other))
    ]
    elsewhere = sum(
        round((run.finish_seconds or 0.0) - (other.runs[key].finish_seconds or 0.0), 3) != 0
        for key, run in one.runs.items()
    )
    return Difference(at_seconds, apart[0][2], f"at {at_seconds:,} s " + ", ".join(clauses), elsewhere)


def _turns(simulation: Simulation) -> set[tuple[float, str, str]]:
    """Return every time at which a job starts or stops running: (seconds, what, job)."""
    found = set()
    for interval in simulation.intervals():
        if interval.phase is Phase.RUNNING:
            found.add((round(interval.from_seconds, 3), "starts", interval.job))
            found.add((round(interval.to_seconds, 3), "stops", interval.job))
    return found


def _said(turns: list[tuple[float, str, str]], simulation: Simulation) -> str:
    if not turns:
        return "nothing changes"
    return " and ".join(
        f"job {job.rpartition('/')[2]} (GPUs: {simulation.runs[job].job.demand.gpus}, submitted at "
        f"{simulation.runs[job].job.submit_seconds:,g} s) {what}"
        for _, what, job in turns
    )
