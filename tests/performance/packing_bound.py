"""An upper bound for every placement: how much of a number of GPUs any packing could fill with given shares.

The cutting-stock relaxation of Gilmore and Gomory (1961), solved by column generation: a column is a way to fill one GPU.
GPUs may be filled by parts of a way, so the bound is a little above what can be done; tasks of several GPUs count as that many
whole ones, wherever these are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from scipy.optimize import linprog

_NOTHING_GAINED = 1e-7


def most_percent(supply: Mapping[int, int], gpus: int) -> float:
    """Return the most percent that can be held, all GPUs together.

    Args:
        supply: by share in percent, 1 to 100: how many there are.
        gpus: how many GPUs; each takes shares up to 100 percent.
    """
    shares = sorted(share for share, count in supply.items() if count)
    if not shares or not gpus:
        return 0.0
    ways = [Counter({share: 100 // share}) for share in shares]
    while True:
        value, price_of_gpu, prices = _filled(shares, supply, gpus, ways)
        way, gain = _best_way({share: share - price for share, price in zip(shares, prices, strict=True)})
        if gain <= price_of_gpu + _NOTHING_GAINED:
            return value
        ways.append(way)


def _filled(
    shares: list[int], supply: Mapping[int, int], gpus: int, ways: list[Counter[int]]
) -> tuple[float, float, list[float]]:
    """Return the most percent that these ways hold, what one more GPU is worth, and one more of each share."""
    held = [-float(sum(share * count for share, count in way.items())) for way in ways]
    rows = np.array([[1.0] * len(ways), *([float(way[share]) for way in ways] for share in shares)])
    limits = [float(gpus), *(float(supply[share]) for share in shares)]
    solved = linprog(held, A_ub=rows, b_ub=limits, method="highs")
    if solved.x is None:
        raise RuntimeError(f"the bound was not found: {solved.message}")
    prices = [-float(price) for price in solved.ineqlin.marginals]
    return -float(np.dot(held, solved.x)), prices[0], prices[1:]


def _best_way(values: Mapping[int, float]) -> tuple[Counter[int], float]:
    """Return the way to fill one GPU that is worth the most, and its worth (an unbounded knapsack)."""
    worth = [0.0] * 101
    last: list[int | None] = [None] * 101
    for room in range(1, 101):
        worth[room] = worth[room - 1]
        for share, value in values.items():
            if share <= room and worth[room - share] + value > worth[room] + _NOTHING_GAINED:
                worth[room], last[room] = worth[room - share] + value, share
    way: Counter[int] = Counter()
    room = 100
    while room:
        taken = last[room]
        if taken is None:
            room -= 1
        else:
            way[taken] += 1
            room -= taken
    return way, worth[100]
