"""Shows the content of the result files in ``docs/measurements.md``, between two marks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hack.markdown import formatted

PAGE = Path("docs/measurements.md")

Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class Block:
    """The part of the page that one make target writes."""

    name: str
    target: str
    sections: Mapping[str, tuple[str, Callable[[Any], Iterator[str]]]]
    """Heading and table by the name of the result file, in the order of the page."""

    @property
    def begin(self) -> str:
        """Return the mark before it."""
        return f"<!-- {self.name}: written by `make {self.target}` from docs/measurements/*.json -->\n"

    @property
    def end(self) -> str:
        """Return the mark after it."""
        return f"<!-- end of {self.name} -->\n"


def write_page(results: Path, block: Block, page: Path = PAGE) -> None:
    """Replace the text between a block's marks.

    Args:
        results: the folder with the result files; missing ones get no section.
        block: the part of the page.
        page: the page, which contains the marks.

    Raises:
        ValueError: the page does not contain the marks.
    """
    sections = "\n".join(
        _section(json.loads((results / f"{name}.json").read_text(encoding="utf-8")), heading, show)
        for name, (heading, show) in block.sections.items()
        if (results / f"{name}.json").exists()
    )
    write_between(page, block.begin, block.end, sections)


def write_between(page: Path, begin: str, end: str, content: str) -> None:
    """Replace what stands between two marks.

    Args:
        page: the page, which contains the marks.
        begin: the mark before, a line.
        end: the mark after it, a line.
        content: Markdown.

    Raises:
        ValueError: the page does not contain the marks.
    """
    before, found_begin, rest = page.read_text(encoding="utf-8").partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise ValueError(f"{page} has to contain the lines {begin.strip()!r} and {end.strip()!r}")
    page.write_text(formatted(f"{before}{begin}\n{content}\n{end}{after}"), encoding="utf-8")


def _section(found: dict[str, Any], heading: str, show: Callable[[Any], Iterator[str]]) -> str:
    machine = found["machine"]
    where = (
        f"{machine['date']}, {machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"Python {machine['python']}, load {machine['load_1_minute']} at the start"
    )
    return f"### {heading}\n\n`{found['command']}`: {where}.\n\n" + "".join(show(found["result"]))


def table(titles: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    """Yield a Markdown table."""
    yield "| " + " | ".join(titles) + " |\n" + "|---" * len(titles) + "|\n"
    for row in rows:
        yield "| " + " | ".join(str(cell) for cell in row) + " |\n"


Column = tuple[str, Callable[[Any], object]]
"""A title, and the cell of a result."""


def table_of(results: Iterable[Any], *columns: Column) -> Iterator[str]:
    """Yield a Markdown table with a row for each result."""
    return table(
        [title for title, _ in columns], ([cell(result) for _, cell in columns] for result in results)
    )


def column(title: str, field: str, form: str | Callable[[Any], str] = "{}") -> Column:
    """Return the column of a field; ``a.b`` is the field b of the field a.

    Args:
        title: of the column.
        field: of each result.
        form: a format string such as ``{:.1f} ms``, or a function of the value.
    """
    write = form.format if isinstance(form, str) else form

    def cell(result: Any) -> str:
        for name in field.split("."):
            result = result[name]
        return write(result)

    return title, cell


def unless_none(form: str) -> Callable[[Any], str]:
    """Return a format that leaves the cell empty for None."""
    return lambda value: "" if value is None else form.format(value)


def seconds(value: float) -> str:
    """Return a time in seconds; long ones without decimals."""
    return f"{value:,.1f} s" if value < 10_000 else f"{value:,.0f} s"
