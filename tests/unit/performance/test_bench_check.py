"""The comparison of two benchmark results: what passes, what fails, and how it is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.performance.bench_check import Bound, ResultError, compare, main, read_bounds, read_results

MARGINS = """
bounds:
  - {result: speed, each: speeds, by: [jobs], field: p50, better: lower, margin_percent: 10, reason: a median}
  - {result: scale, field: bound.pods_a_second, better: higher, margin_percent: 10, reason: an aim}
"""
RESULTS = {
    "speed": {"speeds": [{"jobs": 10, "p50": 1.0}, {"jobs": 20, "p50": 2.0}]},
    "scale": {"bound": {"pods_a_second": 100}},
}


def written(folder: Path, results: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, result in results.items():
        (folder / f"{name}.json").write_text(json.dumps({"command": "make", "result": result}))
    return folder


@pytest.fixture
def check(tmp_path: Path) -> Any:
    """Compares RESULTS with others; returns the exit status."""
    margins = tmp_path / "margins.yaml"
    margins.write_text(MARGINS)

    def run(after: dict[str, Any]) -> int:
        before = written(tmp_path / "before", RESULTS)
        return main([str(before), str(written(tmp_path / "after", after)), "--margins", str(margins)])

    return run


@pytest.mark.parametrize(
    ("better", "before", "after", "holds"),
    [
        ("lower", 100.0, 110.0, True),
        ("lower", 100.0, 110.1, False),
        ("lower", 100.0, 1.0, True),
        ("higher", 100.0, 90.0, True),
        ("higher", 100.0, 89.9, False),
        ("higher", 100.0, 1000.0, True),
        ("lower", -100.0, -90.0, True),
        ("lower", -100.0, -89.0, False),
        ("lower", 0.0, 0.0, True),
        ("lower", 0.0, 0.1, False),
    ],
)
def test_a_margin_is_a_share_of_the_earlier_figure(
    better: Any, before: float, after: float, holds: bool
) -> None:
    assert Bound("speed", "p50", better, 10, "a median").holds(before, after) is holds


def test_equal_results_pass(check: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(RESULTS) == 0
    assert "0 of 3 figures got worse" in capsys.readouterr().out


def test_a_figure_that_got_worse_comes_first_with_its_reason(
    check: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check({"speed": {"speeds": [{"jobs": 20, "p50": 2.3}, {"jobs": 10, "p50": 0.9}]}}) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == [
        *("WORSE", "speed", "p50", "(jobs", "20)", "2", "2.3", "+15.0", "%"),
        *("2.2", "(lower", "is", "better,", "10", "%)"),
    ]
    assert lines[2].startswith("ok")
    assert lines[3] == "speed p50 (jobs 20): margin 10 %: a median"
    assert lines[4].startswith("1 of 2 figures got worse")


def test_elements_that_only_one_result_has_are_not_compared(check: Any) -> None:
    assert check({"speed": {"speeds": [{"jobs": 10, "p50": 1.0}, {"jobs": 99, "p50": 99.0}]}}) == 0


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ({"other": {}}, "no figure in common"),
        ({"speed": {"speeds": [{"jobs": 10}]}}, "there is no 'p50'"),
        ({"scale": {"bound": {"pods_a_second": "many"}}}, "no number"),
    ],
)
def test_results_that_cannot_be_compared_are_an_error(
    check: Any, capsys: pytest.CaptureFixture[str], after: dict[str, Any], message: str
) -> None:
    assert check(after) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "entry",
    [
        "{result: speed, field: p50, better: lower, margin_percent: 10}",
        "{result: speed, field: p50, better: more, margin_percent: 10, reason: why}",
        "{result: speed, field: p50, better: lower, margin_percent: -1, reason: why}",
        "{result: speed, field: p50, better: lower, margin_percent: 10, reason: why, each: speeds}",
        "{result: speed, field: p50, better: lower, margin_percent: 10, reason: why, most: 3}",
    ],
)
def test_a_bound_that_is_not_complete_is_refused(tmp_path: Path, entry: str) -> None:
    path = tmp_path / "margins.yaml"
    path.write_text(f"bounds: [{entry}]")
    with pytest.raises(ResultError, match=r"margins\.yaml"):
        read_bounds(path)


def test_a_file_that_holds_no_result_is_refused(tmp_path: Path) -> None:
    (tmp_path / "speed.json").write_text("[]")
    with pytest.raises(ResultError, match="no result"):
        read_results(tmp_path)


def test_every_kept_bound_finds_its_figure_in_the_published_results() -> None:
    published = read_results(Path(__file__).parents[3] / "docs" / "measurements")
    bounds = read_bounds()
    assert {bound.result for bound in bounds} <= published.keys()
    assert {each.bound for each in compare(bounds, published, published)} == set(bounds)
