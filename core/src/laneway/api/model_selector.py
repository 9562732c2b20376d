"""The selector ``spec.gpus.models``: full names of GPU models, or patterns in which ``*`` stands for any characters."""

from __future__ import annotations

from collections.abc import Collection


def selects(models: Collection[str], model: str) -> bool:
    """Return whether a selector accepts a GPU model; an empty selector accepts any."""
    return not models or model in models or any(_matches(pattern, model) for pattern in models)


def _matches(pattern: str, model: str) -> bool:
    # Every part is taken at its first place, so that the time is linear, whatever the pattern is.
    first, *others = pattern.split("*")
    if not others:
        return pattern == model
    *middle, last = others
    position, end = len(first), len(model) - len(last)
    if position > end or not (model.startswith(first) and model.endswith(last)):
        return False
    for part in middle:
        found = model.find(part, position, end)
        if found < 0:
            return False
        position = found + len(part)
    return True
