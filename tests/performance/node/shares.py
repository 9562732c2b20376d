"""Shares of a contended GPU across lanes: each tenant's progress beside the others, as a part of its progress alone.

    python -m tests.performance.node.shares -o shares.json

Four processes with the real client train without a pause, each in a lane of its own, on one simulated device whose time they
share. Two agents with such a GPU each take turns: one with the policy `fair`, which promises shares, and one with `srtf`, which
promises none, so that only the device slices time between the lanes. First each tenant trains alone. Progress is the number of
its iterations in a time, over that which it makes alone in the same time. It is counted from two seconds after the start, from
when on shares are promised. ``idle_percent`` says for how much of the time nothing was queued on the device: until the same tenant
went on (within its turns), and until another one did.
"""

from __future__ import annotations

import statistics
import tempfile
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.performance.node.crowd import Crowd, Trained, admit_shares, node_with
from tests.performance.result_file import write_measured
from tests.support.node_agent.simulated_device import SimulatedDevice

SHARES = ((60, 20, 10, 10), (25, 25, 25, 25))
ITERATION_SECONDS = 0.02
ALONE_SECONDS = 3.0
TRAINING_SECONDS = 22.0
SETTLED_SECONDS = 2.0
ROUNDS = 2
TURNS = 10
"""The length of the windows in which a tenant's progress is compared with its share, in turns of its own; at least a second."""


def measure() -> dict[str, Any]:
    """Return the progress of each tenant, with rate control and without."""
    with node_with(gpus=len(SHARES)) as fair, node_with(gpus=len(SHARES), policy="srtf") as plain:
        return {
            "iteration_seconds": ITERATION_SECONDS,
            "seconds_of_a_round": TRAINING_SECONDS - SETTLED_SECONDS,
            "rounds": ROUNDS,
            "cases": [
                _compare(
                    shares,
                    admit_shares(fair, shares, gpu, "fair"),
                    admit_shares(plain, shares, gpu, "plain"),
                )
                for gpu, shares in enumerate(SHARES)
            ],
        }


def _compare(shares: Sequence[int], fair: Crowd, plain: Crowd) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="laneway-device-") as folder:
        options = {"iteration_seconds": ITERATION_SECONDS, "device": str(Path(folder) / "device")}
        for crowd in (fair, plain):
            crowd.open_sessions()
        device = SimulatedDevice(Path(str(options["device"])))
        idle: dict[str, list[list[float]]] = {"fair": [], "plain": []}
        alone = [_alone_per_second(fair, number, options) for number in range(len(shares))]
        rounds: dict[str, list[list[float]]] = {"fair": [], "plain": []}
        worst_seconds, worst_turns = [1.0] * len(shares), [1.0] * len(shares)
        for _ in range(ROUNDS):
            for name, crowd in (("fair", fair), ("plain", plain)):
                before = device.idle
                trained = crowd.train(seconds=TRAINING_SECONDS, **options)
                waited_ns = (
                    device.idle.within_ns - before.within_ns,
                    device.idle.between_ns - before.between_ns,
                )
                idle[name].append([each / TRAINING_SECONDS / 1e7 for each in waited_ns])
                assert len(crowd.by_lane(trained)) == len(shares), "each tenant has a lane of its own"
                rounds[name].append(_progress(trained, alone))
                if name == "fair":
                    for number, (each, rate) in enumerate(zip(trained, alone, strict=True)):
                        worst_seconds[number] = min(worst_seconds[number], _worst_second(each, rate))
                        worst_turns[number] = min(worst_turns[number], _worst_turns(each, rate))
    made = {
        name: [statistics.fmean(each) for each in zip(*found, strict=True)] for name, found in rounds.items()
    }
    return {
        "shares_percent": list(shares),
        "fair": _figures(shares, made["fair"]),
        "plain": _figures(shares, made["plain"]),
        "worst_second_percent_of_share": _percent_of_share(worst_seconds, shares),
        "worst_turns_percent_of_share": _percent_of_share(worst_turns, shares),
        "idle_percent": {
            name: [round(statistics.fmean(each), 2) for each in zip(*found, strict=True)]
            for name, found in idle.items()
        },
        "sum_over_plain": round(sum(made["fair"]) / sum(made["plain"]), 3),
    }


def _alone_per_second(crowd: Crowd, number: int, options: dict[str, Any]) -> float:
    one = Crowd(crowd.node, crowd.pods[number : number + 1], crowd.processes[number : number + 1])
    (trained,) = one.train(seconds=ALONE_SECONDS, **options)
    return len(trained.iteration_ends_ns) / ((trained.ended_ns - trained.began_ns) / 1e9)


def _progress(trained: Sequence[Trained], alone: Sequence[float]) -> list[float]:
    """Return each tenant's progress in the time in which all of them train."""
    from_ns = max(each.began_ns for each in trained) + round(SETTLED_SECONDS * 1e9)
    until_ns = min(each.began_ns for each in trained) + round(TRAINING_SECONDS * 1e9)
    seconds = (until_ns - from_ns) / 1e9
    return [
        _iterations(each, from_ns, until_ns) / seconds / rate
        for each, rate in zip(trained, alone, strict=True)
    ]


def _worst_second(trained: Trained, alone: float) -> float:
    """Return its progress in the second in which it made least."""
    from_ns = trained.began_ns + round(SETTLED_SECONDS * 1e9)
    until_ns = trained.began_ns + round(TRAINING_SECONDS * 1e9) - 1_000_000_000
    return min(
        _iterations(trained, at_ns, at_ns + 1_000_000_000) / alone
        for at_ns in range(from_ns, until_ns, 20_000_000)
    )


def _worst_turns(trained: Trained, alone: float) -> float:
    """Return its progress over those of its consecutive turns, but at least a second, in which it made least."""
    from_ns = trained.began_ns + round(SETTLED_SECONDS * 1e9)
    until_ns = trained.began_ns + round(TRAINING_SECONDS * 1e9)
    begins_ns = [turn.began_ns for turn in trained.turns if turn.began_ns >= from_ns]
    windows = [
        (begin_ns, max(end_ns, begin_ns + 1_000_000_000))
        for begin_ns, end_ns in zip(begins_ns, begins_ns[TURNS:], strict=False)
        if begin_ns + 1_000_000_000 <= until_ns
    ]
    return min(
        _iterations(trained, begin_ns, end_ns) / ((end_ns - begin_ns) / 1e9) / alone
        for begin_ns, end_ns in windows or [(from_ns, until_ns)]
    )


def _iterations(trained: Trained, from_ns: int, until_ns: int) -> int:
    return bisect_left(trained.iteration_ends_ns, until_ns) - bisect_left(trained.iteration_ends_ns, from_ns)


def _percent_of_share(made: Sequence[float], shares: Sequence[int]) -> list[int]:
    return [round(10_000 * each / share) for each, share in zip(made, shares, strict=True)]


def _figures(shares: Sequence[int], made: Sequence[float]) -> dict[str, Any]:
    return {
        "progress_percent": [round(100 * each, 1) for each in made],
        "percent_of_share": [
            round(10_000 * each / share, 1) for each, share in zip(made, shares, strict=True)
        ],
        "sum_percent": round(100 * sum(made), 1),
    }


if __name__ == "__main__":
    write_measured(measure)
