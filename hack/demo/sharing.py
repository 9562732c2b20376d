"""Two jobs that shared a GPU: who came second, and how fast each one trained, from their turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hack.demo.turns import Turn

_WARM_UP_SECONDS = 1.0
"""The first iterations of a process take longer, so they count for no pace."""


@dataclass(frozen=True)
class SharedGPU:
    """A GPU on which a job joined another. Paces are iterations per second."""

    node: str
    gpu: str
    first: str
    second: str
    seconds: float
    """For how long both trained there."""

    alone_pace: float
    """Of the first job, before the second one came; 0: it trained nothing."""

    paces: Mapping[str, float]
    """By job, while both trained there."""

    elsewhere: Mapping[str, float]
    """The paces of jobs on other GPUs in the same seconds, when the machine had as much else to do."""

    turns: Mapping[str, int]
    """By job: how many turns of it began meanwhile."""


def shared_gpu(turns: Iterable[Turn]) -> SharedGPU | None:
    """Return the first GPU with turns of two jobs at a time; None if there is none."""
    by_gpu: defaultdict[tuple[str, str], list[Turn]] = defaultdict(list)
    for turn in turns:
        by_gpu[turn.node, turn.gpu].append(turn)
    for key in sorted(by_gpu):
        others = [turn for other in by_gpu if other != key for turn in by_gpu[other]]
        found = _shared(*key, sorted(by_gpu[key], key=lambda turn: turn.start_seconds), others)
        if found is not None:
            return found
    return None


def _shared(node: str, gpu: str, turns: Sequence[Turn], others: Sequence[Turn]) -> SharedGPU | None:
    by_job = _by_job(turns)
    if len(by_job) < 2:
        return None
    first, second = list(by_job)[:2]
    of = {job: by_job[job] for job in (first, second)}
    begin = of[second][0].start_seconds
    end = min(of[job][-1].end_seconds for job in of)
    if end <= begin:
        return None
    warm_seconds = min(_WARM_UP_SECONDS, (end - begin) / 2)
    return SharedGPU(
        node,
        gpu,
        first,
        second,
        seconds=end - begin,
        alone_pace=_pace(of[first], of[first][0].start_seconds + _WARM_UP_SECONDS, begin),
        paces={job: _pace(mine, begin + warm_seconds, end) for job, mine in of.items()},
        elsewhere={
            job: _pace(mine, begin + warm_seconds, min(end, max(turn.end_seconds for turn in mine)))
            for job, mine in _by_job(others).items()
        },
        turns={job: sum(begin <= turn.start_seconds < end for turn in mine) for job, mine in of.items()},
    )


def _by_job(turns: Iterable[Turn]) -> dict[str, list[Turn]]:
    by_job: defaultdict[str, list[Turn]] = defaultdict(list)
    for turn in turns:
        by_job[turn.job].append(turn)
    return by_job


def _pace(turns: Iterable[Turn], begin: float, end: float) -> float:
    """Return the iterations per second in a time; a turn's iterations are spread evenly over it."""
    if end <= begin:
        return 0.0
    iterations = 0.0
    for turn in turns:
        part = min(end, turn.end_seconds) - max(begin, turn.start_seconds)
        if part > 0:
            iterations += turn.iterations * part / (turn.end_seconds - turn.start_seconds)
    return iterations / (end - begin)
