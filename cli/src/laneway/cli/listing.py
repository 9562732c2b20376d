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
class Change(Generic[T]):
    """What a change of the cluster leaves to be shown."""

    items: Sequence[T]
    """New and changed objects; the first time all."""

    gone: Sequence[T] = ()
    """As they were last seen."""


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

    gone: Callable[[T], T] | None = None
    """Returns an object that is gone as the table shows it; None: the table does not show it."""

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

    def show_changes(self, changes: Iterable[Change[T]], output: str | None) -> None:
        """Write all objects, then those of each change, until the changes end.

        A table has its header once, and shows what is gone. The other formats do not: what they print is there.
        """
        for number, change in enumerate(changes):
            changed = self.arrange(change.items)
            if output in ("json", "yaml"):
                for each in changed:
                    write_document(dict(self.document(each)), output)
            elif output == "name":
                for each in changed:
                    print(self.name(each))
            else:
                shown = [*(map(self.gone, change.gone) if self.gone else ()), *changed]
                if shown or not number:
                    lines = self.table(shown, output == "wide").splitlines()
                    print("\n".join(lines[min(number, 1) :]))
            sys.stdout.flush()


def changed_objects(snapshots: Iterable[Sequence[T]], metadata: Callable[[T], Object]) -> Iterator[Change[T]]:
    """Yield all objects, then what each snapshot changes, by their metadata."""
    known: dict[str, tuple[str, T]] = {}
    for items in snapshots:
        before, known = known, {}
        for each in items:
            own = metadata(each)
            known[own["uid"]] = own["resourceVersion"], each
        yield Change(
            [
                each
                for uid, (version, each) in known.items()
                if uid not in before or before[uid][0] != version
            ],
            [each for uid, (_, each) in before.items() if uid not in known],
        )
