"""Compares two sets of benchmark results against the margins in ``margins.yaml``; exits with 1 where a figure got worse.

``python -m tests.performance.bench_check BEFORE AFTER``: each is a folder of result files as ``docs/measurements``, or one such file.
Only results that are in both are compared.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

MARGINS = Path(__file__).with_name("margins.yaml")


class ResultError(Exception):
    """A result file or a bound is not as the check needs it."""


@dataclass(frozen=True, slots=True)
class Bound:
    """How much worse one figure may get."""

    result: str
    """The name of the result file, without its suffix."""

    field: str
    better: Literal["lower", "higher"]
    margin_percent: float
    reason: str
    each: str | None = None
    """The list in whose elements the figure stands, "" for the whole result; None where it stands once."""

    by: tuple[str, ...] = ()
    """The fields that identify an element of the list."""

    def limit(self, before: float) -> float:
        """Returns the worst figure that passes after `before`."""
        worse = 1 if self.better == "lower" else -1
        return before + worse * abs(before) * self.margin_percent / 100

    def holds(self, before: float, after: float) -> bool:
        """Returns whether `after` is within the margin."""
        return after <= self.limit(before) if self.better == "lower" else after >= self.limit(before)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure before and after."""

    bound: Bound
    name: str
    before: float
    after: float

    @property
    def holds(self) -> bool:
        """Whether the figure is within its margin."""
        return self.bound.holds(self.before, self.after)

    @property
    def change_percent(self) -> float:
        """By how much the figure changed."""
        return (
            0.0 if self.after == self.before else 100 * (self.after - self.before) / (abs(self.before) or 1.0)
        )


def read_bounds(path: Path = MARGINS) -> tuple[Bound, ...]:
    """Reads the margins.

    Raises:
        ResultError: a bound is not understood; the message quotes it.
    """
    bounds = []
    for entry in yaml.safe_load(path.read_text(encoding="utf-8"))["bounds"]:
        try:
            bound = Bound(**{**entry, "by": tuple(entry.get("by", ()))})
        except TypeError as error:
            raise ResultError(f"{path}: {entry}: {error}") from None
        if bound.better not in ("lower", "higher") or bound.margin_percent < 0 or not bound.reason:
            raise ResultError(
                f"{path}: {entry}: 'better' is lower or higher, the margin positive, the reason given"
            )
        if bool(bound.by) != (bound.each is not None):
            raise ResultError(f"{path}: {entry}: 'each' and 'by' go together")
        bounds.append(bound)
    return tuple(bounds)


def read_results(path: Path) -> dict[str, Any]:
    """Reads a folder of result files, or one file; returns each file's result by its name.

    Raises:
        ResultError: the path is not there, or a file holds no result.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    results = {}
    for file in files:
        try:
            results[file.stem] = json.loads(file.read_text(encoding="utf-8"))["result"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ResultError(f"{file} is no result of a benchmark: {error!r}") from None
    return results


def compare(bounds: Iterable[Bound], before: dict[str, Any], after: dict[str, Any]) -> Iterator[Comparison]:
    """Yields every figure that both sets hold.

    Raises:
        ResultError: a bound's figure is missing in a result that is there, or nothing can be compared.
    """
    found = False
    for bound in bounds:
        if bound.result not in before or bound.result not in after:
            continue
        earlier, later = (_figures(bound, each[bound.result]) for each in (before, after))
        for name in earlier.keys() & later.keys():
            found = True
            yield Comparison(bound, name, earlier[name], later[name])
    if not found:
        raise ResultError("the two have no figure in common that a margin is kept for")


def _figures(bound: Bound, result: Any) -> dict[str, float]:
    if bound.each is None:
        return {f"{bound.result} {bound.field}": _figure(result, bound.field, bound.result)}
    elements = _value(result, bound.each, bound.result) if bound.each else result
    return {
        f"{bound.result} {bound.field} ({', '.join(f'{key} {element.get(key)}' for key in bound.by)})": _figure(
            element, bound.field, bound.result
        )
        for element in elements
    }


def _figure(value: Any, field: str, result: str) -> float:
    number = _value(value, field, result)
    if not isinstance(number, int | float):
        raise ResultError(f"{result}: {field} is no number: {number!r}")
    return float(number)


def _value(value: Any, field: str, result: str) -> Any:
    for part in field.split("."):
        if not isinstance(value, dict) or part not in value:
            raise ResultError(
                f"{result}: there is no {field!r}; change it in {MARGINS.name} where it was renamed"
            )
        value = value[part]
    return value


def table(comparisons: Sequence[Comparison]) -> str:
    """Returns a table with what got worse first."""
    rows = [("", "figure", "before", "after", "change", "limit")]
    for each in sorted(comparisons, key=lambda each: (each.holds, each.name)):
        mark = "ok" if each.holds else "WORSE"
        limit = f"{each.bound.limit(each.before):.4g} ({each.bound.better} is better, {each.bound.margin_percent:g} %)"
        rows.append(
            (
                mark,
                each.name,
                f"{each.before:.4g}",
                f"{each.after:.4g}",
                f"{each.change_percent:+.1f} %",
                limit,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    reasons = [
        f"{each.name}: margin {each.bound.margin_percent:g} %: {each.bound.reason}"
        for each in comparisons
        if not each.holds
    ]
    return "\n".join([*lines, *reasons])


def main(arguments: Sequence[str] | None = None) -> int:
    """Compares what the command line names; returns the exit status: 0, 1 where a figure got worse, 2 where nothing can be compared."""
    parser = argparse.ArgumentParser(prog="python -m tests.performance.bench_check", description=__doc__)
    parser.add_argument("before", type=Path, help="the folder or file of the earlier results")
    parser.add_argument("after", type=Path, help="of the new ones")
    parser.add_argument("--margins", type=Path, default=MARGINS)
    options = parser.parse_args(arguments)
    if options.after == Path():
        parser.error("after is empty: write the folder or the file of the new results (make: AFTER=folder)")
    try:
        bounds = read_bounds(options.margins)
        comparisons = list(compare(bounds, read_results(options.before), read_results(options.after)))
    except ResultError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(table(comparisons))
    worse = sum(not each.holds for each in comparisons)
    print(f"{worse} of {len(comparisons)} figures got worse than their margins allow")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
