"""Mutation testing: which module and tests are meant, what the workspace holds, and how results are counted."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.performance import mutants
from tests.performance.mutants import MutantsError, make_workspace, result_of, run_mutmut, target_of


@pytest.mark.parametrize(
    ("name", "source", "tests"),
    [
        ("laneway.lanes", "core/src/laneway/lanes", "tests/unit/core/lanes"),
        ("laneway.lanes.turns", "core/src/laneway/lanes/turns", "tests/unit/core/lanes"),
        ("laneway.lanes.table", "core/src/laneway/lanes/table.py", "tests/unit/core/lanes"),
        ("laneway.node_agent.turns", "node_agent/src/laneway/node_agent/turns", "tests/unit/node_agent"),
    ],
)
def test_a_module_is_found_with_the_tests_that_mirror_it(name: str, source: str, tests: str) -> None:
    target = target_of(name)
    assert target.source == mutants.REPOSITORY / source
    assert target.tests == (Path(tests),)


@pytest.mark.parametrize("name", ["", "laneway", "laneway.nothing", "json", "lanes"])
def test_what_is_no_module_of_laneway_is_refused(name: str) -> None:
    with pytest.raises(MutantsError, match="ONLY="):
        target_of(name)


def test_tests_that_are_not_there_are_refused() -> None:
    with pytest.raises(MutantsError, match="tests/unit/nothing"):
        target_of("laneway.lanes", ["tests/unit/nothing"])


def test_the_workspace_is_a_project_with_one_source_folder(tmp_path: Path) -> None:
    make_workspace(target_of("laneway.lanes.turns"), tmp_path)

    settings = tomllib.loads((tmp_path / "pyproject.toml").read_text())["tool"]
    assert settings["mutmut"]["only_mutate"] == ["src/laneway/lanes/turns/*"]
    assert settings["mutmut"]["pytest_add_cli_args_test_selection"] == ["tests/unit/core/lanes"]
    assert "--import-mode=importlib" in settings["pytest"]["ini_options"]["addopts"]
    assert (tmp_path / "src/laneway/lanes/turns/__init__.py").exists()
    assert not (tmp_path / "src/laneway/__init__.py").exists(), "laneway is a namespace package"
    assert (tmp_path / "tests/unit/conftest.py").exists()
    assert (tmp_path / "tests/support/lanes").is_dir()


def test_a_second_run_has_the_code_of_now_and_the_results_of_before(tmp_path: Path) -> None:
    target = target_of("laneway.lanes.turns")
    (tmp_path / "src/laneway/lanes").mkdir(parents=True)
    (tmp_path / "src/laneway/lanes/gone.py").write_text("")
    (tmp_path / "mutants").mkdir()
    make_workspace(target, tmp_path)
    assert not (tmp_path / "src/laneway/lanes/gone.py").exists()
    assert (tmp_path / "mutants").exists()


CODES = {
    "laneway.lanes.fitting.x_fits__mutmut_1": 1,
    "laneway.lanes.fitting.x_fits__mutmut_2": 152,
    "laneway.lanes.fitting.x_fits__mutmut_3": 33,
    "laneway.lanes.fitting.x_fits__mutmut_4": None,
    "laneway.lanes.table.xǁLaneTableǁadmit__mutmut_1": 0,
}


@pytest.fixture
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace where all but one of five mutants were tried."""
    monkeypatch.setattr(mutants, "_change", lambda folder, name: "a → b")
    (tmp_path / "mutants").mkdir()
    (tmp_path / "mutants/a.py.meta").write_text(json.dumps({"exit_code_by_key": CODES}))
    return tmp_path


def test_results_are_counted_by_what_became_of_each_mutant(tried: Path) -> None:
    assert result_of(tried) == {
        "mutants": 5,
        "drawn_from": 5,
        "killed": 2,
        "killed_percent": 40.0,
        "out_of_time": 1,
        "not_tried": 1,
        "survivors": [{"function": "laneway.lanes.table.LaneTable.admit", "change": "a → b"}],
        "reached_by_no_test": ["laneway.lanes.fitting.fits"],
    }


def test_of_a_sample_only_what_was_drawn_counts(tried: Path) -> None:
    found = result_of(tried, list(CODES)[:2])
    assert (found["mutants"], found["drawn_from"], found["killed_percent"]) == (2, 5, 100.0)
    assert not found["survivors"]
    assert not found["reached_by_no_test"]


def test_of_a_sample_only_what_was_not_tried_before_is_tried(
    tried: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []

    def record(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", record)
    run_mutmut(tried, 2, list(CODES))
    run_mutmut(tried, 2, list(CODES)[:2])
    assert [command[-2:] for command in commands] == [["2", "laneway.lanes.fitting.x_fits__mutmut_4"]]


def test_a_workspace_without_mutants_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(MutantsError, match="no mutants"):
        result_of(tmp_path)
