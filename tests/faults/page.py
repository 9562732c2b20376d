"""Writes the tables of faults into ``docs/reliability.md``: ``python -m tests.faults.page [--check]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from hack.markdown import formatted
from tests.faults.gangs_life import GANGS
from tests.faults.kinds import KINDS, Kind
from tests.faults.life import Life
from tests.faults.pausing_life import PAUSING
from tests.faults.scaling_life import SCALING

PAGE = Path("docs/reliability.md")
_INVARIANTS = ("capacity", "gang", "one writer", "once", "service", "grace")
COLUMNS = {
    GANGS.name: (*_INVARIANTS, "end"),
    PAUSING.name: (*_INVARIANTS, "orders", "end"),
    SCALING.name: (*_INVARIANTS, "end"),
}
"""The invariants that are evaluated in each cell, by life."""


def fault_table(life: Life) -> Iterator[str]:
    """Yields the lines of the table of one life: each fault with its pattern, its seeds and the invariants that hold."""
    titles = ("fault", "`CELLS=`", "pattern", "seeds", *COLUMNS[life.name])
    yield _row(titles)
    yield _row(["--"] * len(titles))
    for name, kind in KINDS.items():
        if kind.life is life:
            cell = f"`{name}:{_seed(name)}`"
            yield _row(
                (kind.description, cell, kind.pattern, _seeds(name, kind), *("✓" for _ in COLUMNS[life.name]))
            )


def _seed(name: str) -> str:
    if name == "kill-every-write":
        return "1"
    return "n" if "-write" in name else "seed"


def _seeds(name: str, kind: Kind) -> str:
    return "every n" if name.endswith("kill-after-write") else str(kind.seeds)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |\n"


def with_tables(text: str) -> str:
    """Returns the page with current tables.

    Raises:
        ValueError: a mark of a table is missing.
    """
    for life in (GANGS, PAUSING, SCALING):
        begin, end = (
            f"<!-- faults in {life.name}: make generate -->\n",
            f"<!-- end of faults in {life.name} -->\n",
        )
        before, first, rest = text.partition(begin)
        _, last, after = rest.partition(end)
        if not (first and last):
            raise ValueError(f"{PAGE} needs the lines {begin.strip()!r} and {end.strip()!r}")
        text = before + first + "\n" + "".join(fault_table(life)) + "\n" + last + after
    return formatted(text)


def main() -> int:
    """Writes the page, or checks that it is current; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.page", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit with 1 where the page is old"
    )
    options = parser.parse_args()
    now = PAGE.read_text(encoding="utf-8")
    wanted = with_tables(now)
    if not options.check:
        PAGE.write_text(wanted, encoding="utf-8")
    elif now != wanted:
        print(f"{PAGE} is not current: run 'make generate'", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
