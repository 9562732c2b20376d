"""Repeats what processes do for a fixed time until they have done enough, so that a test does not depend on the machine's speed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

_MOST_ROUNDS = 40


def play_until_enough(play: Callable[[], Sequence[int]], least: int) -> int:
    """Plays rounds until each figure adds up to more than the least.

    Args:
        play: plays one round, and returns what each process did in it.
        least: the number that all must exceed.

    Returns:
        How many rounds were played.

    Raises:
        AssertionError: forty rounds were not enough.
    """
    sums: list[int] = []
    for played in range(1, _MOST_ROUNDS + 1):
        done = play()
        sums = [*done] if not sums else [before + now for before, now in zip(sums, done, strict=True)]
        if min(sums) > least:
            return played
    raise AssertionError(f"not more than {least} in {_MOST_ROUNDS} rounds: {sums}")
