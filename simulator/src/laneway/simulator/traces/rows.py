"""Lines of CSV files as fields by column, and errors that name the line."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from laneway.simulator.trace import TraceError
from laneway.simulator.traces.form import Format, Head, JobRead, ReadOptions

Row = Mapping[str, str]
"""Fields without surrounding spaces, by column."""


def headed_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield number and fields of each line of a CSV whose first line names the columns.

    Raises:
        TraceError: the file cannot be read, is no CSV, or a line has not as many fields as the first.
    """
    lines = _lines(path, ",")
    _, columns = next(lines, (0, []))
    yield from _by_column(path, lines, columns, "the header")


def bare_rows(path: Path, columns: Sequence[str], delimiter: str = ",") -> Iterator[tuple[int, Row]]:
    """Yield number and fields of each line of a file without a header.

    Raises:
        TraceError: the file cannot be read, is no CSV, or a line has not as many fields as there are columns.
    """
    yield from _by_column(path, _lines(path, delimiter), columns, f"the format ({', '.join(columns)})")


def numbered(rows: Iterable[tuple[int, Row]]) -> Iterator[tuple[int, Row]]:
    """Yield the lines with a field more, ``line``, by which jobs without names are called; sorted, it keeps their order."""
    for number, row in rows:
        yield number, {**row, "line": f"line-{number:07d}"}


def read_each(
    path: Path, rows: Iterable[tuple[int, Row]], read_row: Callable[[Row], JobRead]
) -> Iterator[JobRead]:
    """Yield what ``read_row`` makes of each line.

    Raises:
        TraceError: ``read_row`` raised a ValueError; the message names the line.
    """
    for number, row in rows:
        try:
            yield read_row(row)
        except ValueError as error:
            raise TraceError(f"{path}, line {number}: {error}") from error


def headed_format(
    name: str,
    required: frozenset[str],
    optional: frozenset[str],
    jobs: Callable[[Path, ReadOptions], Iterator[JobRead]],
    *,
    recorded: bool = False,
) -> Format:
    """Return the format of a CSV with a header."""

    def recognise(head: Head) -> bool:
        return required <= frozenset(head.columns) <= required | optional

    may = f" and perhaps {', '.join(sorted(optional))}" if optional else ""
    looks = f"columns {', '.join(sorted(required))}{may}"
    return Format(name, looks, recognise, jobs, recorded, required, optional)


def each_line(read_row: Callable[[Row], JobRead]) -> Callable[[Path, ReadOptions], Iterator[JobRead]]:
    """Return how to read a CSV with a header whose lines say all there is to say of a job."""
    return lambda path, _: read_each(path, headed_rows(path), read_row)


def _lines(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            if delimiter == "\t":  # such files quote nothing: a quote is one
                reader = csv.reader(file, delimiter=delimiter, quoting=csv.QUOTE_NONE)
            else:
                reader = csv.reader(file, delimiter=delimiter, strict=True)
            for fields in reader:
                if fields:
                    yield reader.line_num, [field.strip() for field in fields]
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror}") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise TraceError(f"{path} is no CSV file: {error}") from error


def _by_column(
    path: Path, lines: Iterable[tuple[int, list[str]]], columns: Sequence[str], of: str
) -> Iterator[tuple[int, Row]]:
    for number, fields in lines:
        if len(fields) != len(columns):
            raise TraceError(f"{path}, line {number}: it has not as many fields as {of}")
        yield number, dict(zip(columns, fields, strict=True))
