"""Objects of one kind as a table, as names, or as JSON or YAML; once, or after each change."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from laneway.cli.output import write_document, write_object
from laneway.sdk.cluster import Object

T = TypeVar("T")


@dataclass(frozen=True)
class Listing(Generic[T]):
    """How a verb shows its objects."""

    table: Callable[[Sequence[T], bool], str]
    """Returns a header and a line for each object; with more columns if the second argument is true."""

    document: Callable[[T], Mapping[str, Any]]
    """Returns an object for ``-o json`` and ``-o yaml``."""

    arrange: Callable[[Iterable[T]], list[T]] = list
    """Puts objects into the order of the table, and may leave some out."""

    name: Callable[[T], str] = str
    """Returns what ``-o name`` writes, where a verb offers it."""

    envelope: Mapping[str, Any] = field(default_factory=lambda: {"apiVersion": "v1", "kind": "List"})
    """What JSON and YAML have beside ``items``."""

    def show(self, items: Iterable[T], output: str | None, *, empty: str = "") -> None:
        """Write the objects; in place of an empty table, a sentence if there is one."""
        arranged = self.arrange(items)
        if output in ("json", "yaml"):
            write_object({**self.envelope, "items": [dict(self.document(each)) for each in arranged]}, output)
        elif output == "name":
            for each in arranged:
                print(self.name(each))
        else:
            print(self.table(arranged, output == "wide") if arranged or not empty else empty)

    def show_changes(self, changes: Iterable[Iterable[T]], output: str | None) -> None:
        """Write all objects, then those of each change, until the changes end; a table has its header once."""
        for number, items in enumerate(changes):
            changed = self.arrange(items)
            if output in ("json", "yaml"):
                for each in changed:
                    write_document(dict(self.document(each)), output)
            elif output == "name":
                for each in changed:
                    print(self.name(each))
            elif changed or not number:
                lines = self.table(changed, output == "wide").splitlines()
                print("\n".join(lines[min(number, 1) :]))
            sys.stdout.flush()


def changed_objects(snapshots: Iterable[Sequence[T]], metadata: Callable[[T], Object]) -> Iterator[list[T]]:
    """Yield all objects, then those of each snapshot that are new or have changed, by their metadata."""
    versions: dict[str, str] = {}
    for items in snapshots:
        known = [(metadata(each), each) for each in items]
        before, versions = versions, {own["uid"]: own["resourceVersion"] for own, _ in known}
        yield [each for own, each in known if before.get(own["uid"]) != own["resourceVersion"]]
