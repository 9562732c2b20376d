"""Objects of one kind as a table, as names, or as JSON or YAML; once, or after each change."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from laneway.cli.output import write_document, write_object

T = TypeVar("T")


@dataclass(frozen=True)
class Listing(Generic[T]):
    """How a verb shows its objects."""

    table: Callable[[Sequence[T], bool], str]
    """Returns a header and a line for each object; with more columns if the second argument is true."""

    document: Callable[[T], Mapping[str, Any]]
    """Returns an object for ``-o json`` and ``-o yaml``."""

    identity: Callable[[T], Hashable]
    """Tells an object from the others, also after it has changed."""

    version: Callable[[T], object]
    """Differs after each change of an object."""

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

    def show_changes(self, snapshots: Iterable[Sequence[T]], output: str | None) -> None:
        """Write all objects, then each that is new or has changed, until the snapshots end; a table has its header once."""
        versions: dict[Hashable, object] = {}
        for number, items in enumerate(snapshots):
            before, versions = versions, {self.identity(each): self.version(each) for each in items}
            changed = self.arrange(
                each for each in items if before.get(self.identity(each)) != versions[self.identity(each)]
            )
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
