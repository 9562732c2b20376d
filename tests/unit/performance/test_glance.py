"""The table at the top of the page of measurements shows the results as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.performance.glance import BEGIN, END, GOALS, glance, write_glance

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "docs" / "measurements"


def test_the_page_shows_the_results_that_are_there_now(tmp_path: Path) -> None:
    page = ROOT / "docs" / "measurements.md"
    written = tmp_path / "measurements.md"
    written.write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    write_glance(RESULTS, written)
    assert written.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")


def test_every_goal_has_a_result() -> None:
    assert len(list(glance(RESULTS))) == 1 + len(GOALS)


@pytest.mark.parametrize(
    ("result", "reached"),
    [
        ({"gate": {"median_us": 2.0}}, {"at most 2 µs": "yes"}),
        ({"gate": {"median_us": 2.01}}, {"at most 2 µs": "**no**"}),
    ],
)
def test_a_goal_is_reached_up_to_its_bound(
    tmp_path: Path, result: Mapping[str, object], reached: dict[str, str]
) -> None:
    (tmp_path / "node-boundary.json").write_text(json.dumps({"result": result}), encoding="utf-8")
    assert _reached(tmp_path) == reached


@pytest.mark.parametrize(("times_better", "word"), [(1.3, "yes"), (1.29, "**no**")])
def test_a_goal_may_be_a_lower_bound(tmp_path: Path, times_better: float, word: str) -> None:
    (tmp_path / "better.json").write_text(
        json.dumps({"result": [{"times_better": times_better}]}), encoding="utf-8"
    )
    assert _reached(tmp_path) == {"at least 1.30": word}


def test_a_page_without_the_marks_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n{BEGIN}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=END.strip()):
        write_glance(RESULTS, page)
    assert page.read_text(encoding="utf-8") == f"# Page\n\n{BEGIN}\n"


def _reached(results: Path) -> dict[str, str]:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in list(glance(results))[1:]]
    return {row[2]: row[3] for row in rows}
