"""Reads the agents' record of turns and evaluates it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hack.demo.api import Api

LaneKey = tuple[str, str, int]
"""Node, GPU and lane."""


@dataclass(frozen=True)
class Turn:
    """One turn of a job's worker. Times in seconds since the epoch; an open turn ends at infinity."""

    node: str
    gpu: str
    lane: int
    turn: int
    job: str
    pod: str
    start_seconds: float
    end_seconds: float
    iterations: int

    @property
    def lane_key(self) -> LaneKey:
        """The lane of the turn."""
        return self.node, self.gpu, self.lane


def read_turns(
    api: Api, namespace: str, pods: Iterable[str], since_seconds: float, of_namespace: str
) -> list[Turn]:
    """Return the turns that the agents in these pods of ``namespace`` remember, for jobs of ``of_namespace``.

    Raises:
        ClusterError: an agent does not answer.
    """
    turns = []
    for pod in pods:
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}:9464/proxy/turns"
        turns += [
            _turn(raw)
            for raw in api.get(path, {"since": f"{since_seconds:.3f}"})
            if raw["namespace"] == of_namespace
        ]
    return sorted(turns, key=lambda turn: turn.start_seconds)


def _turn(raw: dict[str, Any]) -> Turn:
    return Turn(
        node=raw["node"],
        gpu=raw["gpu"],
        lane=raw["lane"],
        turn=raw["turn"],
        job=raw["job"] or raw["pod"],
        pod=raw["pod"],
        start_seconds=raw["start_seconds"],
        end_seconds=float("inf") if raw["end_seconds"] is None else raw["end_seconds"],
        iterations=raw["iterations"],
    )


def by_lane(turns: Iterable[Turn]) -> dict[LaneKey, list[Turn]]:
    """Return the turns of each lane in the order of their start."""
    lanes: dict[LaneKey, list[Turn]] = defaultdict(list)
    for turn in sorted(turns, key=lambda turn: turn.start_seconds):
        lanes[turn.lane_key].append(turn)
    return dict(lanes)


def overlaps_within_lanes(turns: Iterable[Turn]) -> list[tuple[Turn, Turn]]:
    """Return the pairs of consecutive turns of a lane that overlap."""
    return [
        (one, other)
        for lane in by_lane(turns).values()
        for one, other in pairwise(lane)
        if other.start_seconds < one.end_seconds
    ]


def overlaps_across_lanes(turns: Sequence[Turn]) -> int:
    """Return how many turns began during a turn of another lane of the same GPU."""
    count = 0
    under_way: dict[tuple[str, str], dict[int, float]] = defaultdict(dict)
    for turn in sorted(turns, key=lambda turn: turn.start_seconds):
        lanes = under_way[turn.node, turn.gpu]
        count += any(lane != turn.lane and end > turn.start_seconds for lane, end in lanes.items())
        lanes[turn.lane] = turn.end_seconds
    return count


def handovers(turns: Iterable[Turn]) -> dict[LaneKey, int]:
    """Return how often each lane changed from one job to another."""
    return {
        key: sum(one.job != other.job for one, other in pairwise(lane))
        for key, lane in by_lane(turns).items()
    }
