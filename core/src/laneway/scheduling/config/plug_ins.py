"""Policies that other packages bring, by the entry point group ``laneway.policies``.

The entry point's name is the stage, a dot, and the policy's name, which has a dot itself: ``order.acme.night-shift`` is
the order policy ``acme.night-shift``. Laneway's own names have no dot, so no package can replace them, and a
misspelt one never leads to a search for packages. A policy is imported only when its name is used.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from laneway.scheduling.config.parameters import parameters

GROUP = "laneway.policies"

NAME_PATTERN = r"^[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*)+$"
"""The form of the names of other packages' policies."""


def is_name(name: str) -> bool:
    """Whether a name is allowed for another package's policy."""
    return re.match(NAME_PATTERN, name) is not None


def names(stage: str) -> list[str]:
    """Return the policies of a stage that the installed packages bring, in order."""
    return sorted({name for name, _ in _offers(stage) if is_name(name)})


def find(stage: str, name: str, members: Collection[str]) -> Callable[..., Any] | None:
    """Return a policy that a package brings; None if none does.

    Args:
        stage: its stage.
        name: the policy's.
        members: what a policy of the stage has to have.

    Raises:
        ValueError: it cannot be loaded, is no policy, or two packages bring it; names the distribution.
    """
    offers = [point for offered, point in _offers(stage) if offered == name]
    if not offers or not is_name(name):
        return None
    if len({point.value for point in offers}) > 1:
        raise ValueError(
            f"{' and '.join(sorted(_whose(point) for point in offers))} both bring a {stage} policy {name!r}: "
            "uninstall one of them"
        )
    return _loaded(stage, name, offers[0], members)


def misnamed(stage: str) -> list[str]:
    """Return, as sentences, which policies of a stage have names that packages cannot use."""
    return [
        f"{_whose(point)} brings {point.name!r}, which is not usable: its name after {stage!r} needs a dot, "
        f"as {stage}.acme.{name if is_name(f'acme.{name}') else 'policy'}"
        for name, point in _offers(stage)
        if not is_name(name)
    ]


def _offers(stage: str) -> list[tuple[str, EntryPoint]]:
    found = []
    for point in _points(tuple(sys.path)):
        prefix, _, name = point.name.partition(".")
        if prefix == stage:
            found.append((name, point))
    return found


@cache
def _points(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return what the packages on ``sys.path`` bring. To read all packages takes longer than to parse a command line."""
    return tuple(entry_points(group=GROUP))


def _loaded(stage: str, name: str, point: EntryPoint, members: Collection[str]) -> Callable[..., Any]:
    what = f"{stage} policy {name!r} of {_whose(point)} ({point.value})"
    try:
        policy = point.load()
    except Exception as error:  # a foreign module may raise anything on import
        raise ValueError(f"{what} cannot be loaded: {type(error).__name__}: {error}") from error
    if not (isinstance(policy, type) and is_dataclass(policy)):
        raise ValueError(f"{what} is no policy: write a frozen dataclass, whose fields are its parameters")
    there_are = {field.name for field in fields(policy)}
    lacking = [member for member in members if member not in there_are and not hasattr(policy, member)]
    if lacking:
        raise ValueError(f"{what} lacks {', '.join(lacking)}")
    try:
        parameters(policy)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error
    return policy


def _whose(point: EntryPoint) -> str:
    return "an unknown distribution" if point.dist is None else f"{point.dist.name} {point.dist.version}"
