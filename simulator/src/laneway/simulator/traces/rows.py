"""Reads lines of CSV files as fields by column; errors name the line."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from laneway.simulator.input_file import InputError
from laneway.simulator.traces.trace_format import Format, Head, JobRead, ReadOptions

T = TypeVar("T")
Item = TypeVar("Item")

Row = Mapping[str, str]
"""Fields without surrounding spaces, by column."""


def headed_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield the number and the fields of each line of a CSV whose first line names the columns.

    Raises:
        InputError: the file cannot be read, is not CSV, or a line and the first line differ in their number of fields.
    """
    lines = _lines(path, ",")
    _, columns = next(lines, (0, []))
    yield from _by_column(path, lines, columns, "the header")


def bare_rows(path: Path, columns: Sequence[str], delimiter: str = ",") -> Iterator[tuple[int, Row]]:
    """Yield the number and the fields of each line of a file without a header.

    Raises:
        InputError: the file cannot be read, is not CSV, or a line has more or fewer fields than there are columns.
    """
    yield from _by_column(path, _lines(path, delimiter), columns, f"the format ({', '.join(columns)})")


def numbered(rows: Iterable[tuple[int, Row]]) -> Iterator[tuple[int, Row]]:
    """Add a field ``line``, which names jobs that have no name; these names sort in the order of the lines."""
    for number, row in rows:
        yield number, {**row, "line": f"line-{number:07d}"}


def read_each(
    path: Path, items: Iterable[tuple[int, Item]], read: Callable[[Item], T], at: str = "line"
) -> Iterator[T]:
    """Yield the result of ``read`` for each numbered item of a file.

    Raises:
        InputError: ``read`` raised a ValueError; the message names the file and the line.
    """
    for number, item in items:
        try:
            yield read(item)
        except ValueError as error:
            raise InputError(f"{path}, {at} {number}: {error}") from error


def headed_format(
    name: str,
    required: frozenset[str],
    optional: frozenset[str],
    jobs: Callable[[Path, ReadOptions], Iterator[JobRead]],
    *,
    recorded: bool = False,
) -> Format:
    """Return the format of a CSV with a header."""

    def recognize(head: Head) -> bool:
        return required <= frozenset(head.columns) <= required | optional

    allowed = f" and optionally {', '.join(sorted(optional))}" if optional else ""
    first_line = f"columns {', '.join(sorted(required))}{allowed}"
    return Format(name, first_line, recognize, jobs, recorded, required, optional)


def each_line(read_row: Callable[[Row], JobRead]) -> Callable[[Path, ReadOptions], Iterator[JobRead]]:
    """Return a reader for a CSV with a header and one complete job per line."""
    return lambda path, _: read_each(path, headed_rows(path), read_row)


def _lines(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            if delimiter == "\t":  # tab-separated files do not quote: a quote stands for itself
                reader = csv.reader(file, delimiter=delimiter, quoting=csv.QUOTE_NONE)
            else:
                reader = csv.reader(file, delimiter=delimiter, strict=True)
            for fields in reader:
                if fields:
                    yield reader.line_num, [field.strip() for field in fields]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a CSV file: {error}") from error


def _by_column(
    path: Path, lines: Iterable[tuple[int, list[str]]], columns: Sequence[str], of: str
) -> Iterator[tuple[int, Row]]:
    for number, fields in lines:
        if len(fields) != len(columns):
            raise InputError(f"{path}, line {number}: its number of fields differs from {of}")
        yield number, dict(zip(columns, fields, strict=True))
