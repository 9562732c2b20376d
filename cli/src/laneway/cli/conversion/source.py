"""An object whose fields are taken out one after the other, so that those that nobody took can be named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

_BY_THE_API_SERVER = (
    ("status",),
    ("metadata", "creationTimestamp"),
    ("metadata", "generation"),
    ("metadata", "managedFields"),
    ("metadata", "resourceVersion"),
    ("metadata", "selfLink"),
    ("metadata", "uid"),
    ("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"),
)
"""What nobody writes into a manifest, and a server adds to it."""


class Source:
    """An object to convert, and what was to be said about it."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._rest: dict[str, Any] = deepcopy(dict(given))
        self._notes: list[str] = []
        for path in _BY_THE_API_SERVER:
            self.take(*path)

    def take(self, *path: str, default: Any = None) -> Any:
        """Take a field out, and return it; the default where there is none."""
        *parents, last = path
        inside: Any = self._rest
        for parent in parents:
            inside = inside.get(parent) if isinstance(inside, dict) else None
        found = inside.pop(last, None) if isinstance(inside, dict) else None
        return default if found is None else found

    def note(self, text: str) -> None:
        """Say what the result does otherwise."""
        self._notes.append(text)

    def put_back(self, value: Any, *path: str) -> None:
        """Put the rest of a field back, so that it is named."""
        inside = self._rest
        for parent in path[:-1]:
            inside = inside.setdefault(parent, {})
        if value:
            inside[path[-1]] = value

    def notes(self) -> list[str]:
        """Return all notes, and one for each field that was not taken."""
        return [
            *self._notes,
            *(f"{path} has no counterpart, and was left out" for path in _paths(self._rest, "")),
        ]


def _paths(value: Any, path: str) -> Iterator[str]:
    """Yield the paths of all values; a list counts as one unless it holds objects."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _paths(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        for place, each in enumerate(value):
            name = each.get("name", place) if isinstance(each, dict) else place
            yield from _paths(each, f"{path}[{name}]")
    elif value is not None:
        yield path
