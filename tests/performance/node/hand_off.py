"""From the end of one process's turn to the start of the next one's, in one lane of a real agent.

    python -m tests.performance.node.hand_off -o hand-off.json

Two processes with the real client train with iterations of a millisecond and a quantum of one. A hand-off is counted from the end of the last
iteration (before the client looks at its page, lets the device finish and writes its release) to the moment at which the
other's ``begin`` has returned. The same run also measures hand-offs between processes that write packets by hand, without the
client, and the bare round trip of a Unix socket between two processes, back to back and with a pause before each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from tests.performance.node.crowd import Turn, admit, node_with
from tests.performance.node.latencies import summary
from tests.performance.node.socket_round_trip import round_trips_us
from tests.performance.result_file import write_measured
from tests.support.node_agent.node import Node

ITERATION_SECONDS = 0.001
PAUSE_SECONDS = 0.002
"""About as long as a turn here."""


def hand_offs_us(
    node: Node, seconds: float, during: Callable[[], None] = lambda: None, gpu: int = 0
) -> list[float]:
    """Have two processes hand their turn to and fro.

    Args:
        node: an agent; it should have one lane a GPU and a quantum of 1 ms.
        seconds: for how long.
        during: called meanwhile; what it does to the agent shows in the latencies.
        gpu: on which GPU.

    Returns:
        The hand-offs between different processes, in microseconds.
    """
    crowd = admit(node, 2, gpu, "hand-off")
    crowd.open_sessions()
    crowd.start_training(iteration_seconds=ITERATION_SECONDS, seconds=seconds)
    during()
    return hand_offs_of_lane_us([each.turns for each in crowd.await_training()])


def hand_offs_of_lane_us(turns_of_processes: Sequence[Sequence[Turn]]) -> list[float]:
    """Return what passed between the turns of different processes of one lane, in microseconds."""
    turns = sorted(
        ((turn, process) for process, turns in enumerate(turns_of_processes) for turn in turns),
        key=lambda each: each[0].number,
    )
    return [
        (after.began_ns - before.ended_ns) / 1000
        for (before, one), (after, other) in pairwise(turns)
        if after.number == before.number + 1 and one != other
    ]


def bare_hand_offs_us(node: Node, seconds: float, gpu: int = 1) -> list[float]:
    """Return hand-offs between two processes that write packets by hand, in microseconds: what the agent takes by itself."""
    peers = [node.container(f"bare-{name}", 100, gpu=gpu).await_socket().process() for name in "ab"]
    for peer in peers:
        peer.hello()
        peer.profile(10, 10)
    for peer in peers:
        peer.start("hand_off", seconds=seconds)
    answers = [peer.finish()["times"] for peer in peers]
    return hand_offs_of_lane_us(
        [
            [
                Turn(int(number), granted, released, 1)
                for number, (granted, released) in times.items()
                if int(number)
            ]
            for times in answers
        ]
    )


def measure() -> dict[str, Any]:
    """Return the latencies, and how they compare."""
    with node_with(gpus=2, lanes=1, quantumMilliseconds=1) as node:
        before = round_trips_us(2_000, PAUSE_SECONDS)
        clients = hand_offs_us(node, 12.0)
        bare = bare_hand_offs_us(node, 8.0)
    round_trips = round_trips_us(20_000)
    paced = before + round_trips_us(2_000, PAUSE_SECONDS)
    found = {
        "hand_off": summary(clients),
        "hand_off_without_client": summary(bare),
        "round_trip": summary(round_trips),
        "round_trip_after_pause": summary(paced),
    }
    hand_off_us = found["hand_off"]["p50_us"]
    ratios = {
        "after_pause": round(hand_off_us / found["round_trip_after_pause"]["p50_us"], 2),
        "back_to_back": round(hand_off_us / found["round_trip"]["p50_us"], 2),
    }
    return {**found, "times_round_trip": ratios}


if __name__ == "__main__":
    write_measured(measure)
