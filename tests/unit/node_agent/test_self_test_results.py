"""The saved results of the interposer's self-test."""

from __future__ import annotations

from pathlib import Path

import pytest
from laneway.node_agent.self_test.evaluation import SelfTestResult
from laneway.node_agent.self_test.results_file import RESULTS_NAME, LibraryOnDriver, ResultsFile, SavedResult

FIRST = LibraryOnDriver(driver="570.86.15", library="aa")
UPGRADED = [
    LibraryOnDriver(driver="580.65.06", library="aa"),
    LibraryOnDriver(driver="570.86.15", library="bb"),
]


def test_a_result_is_kept_for_its_driver_and_library_alone(tmp_path: Path) -> None:
    ResultsFile(tmp_path).finish(FIRST, SelfTestResult(False, "it crashed"))
    file = ResultsFile(tmp_path)
    assert file.result(FIRST) == SavedResult(of=FIRST, passed=False, reason="it crashed")
    assert [file.result(other) for other in UPGRADED] == [None, None]
    file.finish(UPGRADED[0], SelfTestResult(True))
    assert ResultsFile(tmp_path).result(FIRST) is not None, "a driver may be downgraded again"


def test_nothing_is_kept_of_a_test_without_a_result(tmp_path: Path) -> None:
    file = ResultsFile(tmp_path)
    file.begin(FIRST)
    file.finish(FIRST, SelfTestResult(None, "the GPU is full"))
    assert ResultsFile(tmp_path).result(FIRST) is None


def test_an_agent_that_ends_in_the_middle_is_counted(tmp_path: Path) -> None:
    for interruptions in (1, 2):
        ResultsFile(tmp_path).begin(FIRST)
        assert ResultsFile(tmp_path).result(FIRST) == SavedResult(of=FIRST, interruptions=interruptions)


@pytest.mark.parametrize("content", ["{", '{"version": 2, "results": []}'])
def test_an_unusable_file_counts_as_empty(tmp_path: Path, content: str) -> None:
    (tmp_path / RESULTS_NAME).write_text(content)
    file = ResultsFile(tmp_path)
    assert file.result(FIRST) is None
    file.finish(FIRST, SelfTestResult(True))
    assert ResultsFile(tmp_path).result(FIRST) is not None


def test_the_oldest_results_are_dropped(tmp_path: Path) -> None:
    file = ResultsFile(tmp_path)
    for number in range(17):
        file.finish(LibraryOnDriver(driver=str(number), library="aa"), SelfTestResult(True))
    kept = [
        ResultsFile(tmp_path).result(LibraryOnDriver(driver=str(number), library="aa"))
        for number in range(17)
    ]
    assert [result is None for result in kept] == [True] + [False] * 16
