"""Reads fields of an API object: a missing field, or one of another type, reads as if it were not set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = Mapping[str, Any]

_LONGEST_TEXT = 1000
_MOST_ITEMS = 1024
_LARGEST = 2**53 - 1
"""The largest integer that a browser's number holds exactly."""


def text(value: object, *path: str) -> str:
    """Return a text field, cut after 1000 characters; empty if it is not set.

    Lone surrogates, which no UTF-8 stream can carry, become replacement characters.
    """
    found = _at(value, path)
    if not isinstance(found, str):
        return ""
    cut = found if len(found) <= _LONGEST_TEXT else f"{found[:_LONGEST_TEXT]} …"
    return cut.encode("utf-8", "replace").decode("utf-8")


def number(value: object, *path: str) -> int | None:
    """Return an integer field; None if it is not set, or too large for a browser."""
    found = _at(value, path)
    if isinstance(found, bool) or not isinstance(found, int):
        return None
    return found if abs(found) <= _LARGEST else None


def count(value: object, *path: str) -> int:
    """Return an integer field that is not negative; 0 if it is not set."""
    return max(0, number(value, *path) or 0)


def flag(value: object, *path: str) -> bool | None:
    """Return a boolean field; None if it is not set."""
    found = _at(value, path)
    return found if isinstance(found, bool) else None


def part(value: object, *path: str) -> Object | None:
    """Return an object field; None if it is not set."""
    found = _at(value, path)
    return found if isinstance(found, Mapping) else None


def items(value: object, *path: str) -> list[Object]:
    """Return the objects of a list field, at most 1024."""
    found = _at(value, path)
    if not isinstance(found, list):
        return []
    return [item for item in found[:_MOST_ITEMS] if isinstance(item, Mapping)]


def texts(value: object, *path: str) -> list[str]:
    """Return the texts of a list field, at most 1024."""
    found = _at(value, path)
    return (
        [text(item) for item in found[:_MOST_ITEMS] if isinstance(item, str)]
        if isinstance(found, list)
        else []
    )


def _at(value: object, path: tuple[str, ...]) -> object:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
