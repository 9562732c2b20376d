"""Mutation testing with mutmut: ``make mutants ONLY=laneway.lanes``.

mutmut changes the code in small ways ("mutants") and runs the tests against each change. A mutant that no test notices survives: it
shows code that the tests run and do not check. Only the tests that reach the mutant's function run, the fastest first.

mutmut wants a project with one source folder. So each run has a workspace in ``.mutants/MODULE``: a copy of the module as
``src/laneway/…``, which comes before the installed one because ``laneway`` is a namespace package, and a copy of ``tests``. A run that
was stopped goes on where it was; ``FRESH=1`` begins again. A large package takes many hours: ``SAMPLE=1500`` tries as many of its mutants,
always the same ones, drawn at random.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import chdir
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.performance.machine import this_machine
from tests.performance.page import Block, write_page

REPOSITORY = Path(__file__).parents[2]
WORKSPACES = REPOSITORY / ".mutants"
GOAL_PERCENT = 85
_PREFIX = "mutants-"
_MOST_FUNCTIONS = 3
_FAILED = {1, 3}
_OUT_OF_TIME = {24, -24, 36, 152, 255}
"""The limit is on CPU time: an endless loop exceeds it, but a busy machine makes no mutant exceed it."""

_SURVIVED = {0}
_NO_TESTS = {5, 33}
"""mutmut's exit codes by what became of the mutant (its module ``stats``)."""


_CLEAR_CACHES = '''"""Each mutant is tried in a fork of a process that has run all tests: its caches hold results of the unchanged code."""

import functools
import gc


def pytest_sessionstart():
    for each in gc.get_objects():
        if isinstance(each, functools._lru_cache_wrapper):
            each.cache_clear()
'''


_GENERATE = """
from multiprocessing import cpu_count
from mutmut.__main__ import copy_also_copy_files, copy_src_dir, create_mutants, set_mutant_under_test, setup_source_paths
set_mutant_under_test("mutant_generation")
copy_src_dir()
copy_also_copy_files()
setup_source_paths()
create_mutants(cpu_count())
"""
"""The first part of `mutmut run`: it has no command of its own."""


class MutantsError(Exception):
    """The run could not be made."""


@dataclass(frozen=True, slots=True)
class Target:
    """A module or package to mutate, with its tests."""

    name: str
    source: Path
    """Its file or folder in the repository."""

    portion: Path
    """The folder `laneway` of its distribution."""

    tests: tuple[Path, ...]
    """Folders or files, relative to the repository."""


def target_of(name: str, tests: Sequence[str] = ()) -> Target:
    """Finds a module of Laneway by its dotted name, and the unit tests that mirror it.

    Raises:
        MutantsError: there is no such module, or no tests of it.
    """
    first, *parts = name.split(".")
    found = [
        (portion, path)
        for portion in sorted(REPOSITORY.glob("*/src/laneway"))
        for path in (portion.joinpath(*parts), portion.joinpath(*parts).with_suffix(".py"))
        if first == "laneway" and parts and path.exists()
    ]
    if not found:
        raise MutantsError(
            f"ONLY={name!r}: write a module of Laneway, as laneway.lanes or laneway.lanes.turns"
        )
    portion, source = found[0]
    distribution = portion.parents[1].name
    mirror = Path("tests/unit") / ("core" if distribution == "core" else "") / parts[0]
    selected = tuple(Path(each) for each in tests) or (mirror,)
    if missing := [str(each) for each in selected if not (REPOSITORY / each).exists()]:
        raise MutantsError(f"there are no tests {', '.join(missing)}: name others with TESTS=")
    return Target(name, source, portion, selected)


def make_workspace(target: Target, folder: Path) -> None:
    """Copies the target and the tests to a folder as mutmut wants a project; keeps what an earlier run has found out."""
    source = folder / "src/laneway"
    for stale in (folder / "src", folder / "tests"):
        shutil.rmtree(stale, ignore_errors=True)
    top = target.portion / target.source.relative_to(target.portion).parts[0]
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(top, source / top.name, ignore=ignored)
    kinds = {REPOSITORY / "tests" / each.parts[1] for each in target.tests}
    for kind in (REPOSITORY / "tests/support", *kinds):
        shutil.copytree(kind, folder / "tests" / kind.name, ignore=ignored)
    shutil.copytree(REPOSITORY / "docs", folder / "docs", dirs_exist_ok=True)  # tests read examples there
    (folder / "conftest.py").write_text(_CLEAR_CACHES, encoding="utf-8")
    relative = (Path("src/laneway") / target.source.relative_to(target.portion)).as_posix()
    pattern = relative if target.source.is_file() else f"{relative}/*"
    (folder / "pyproject.toml").write_text(_configuration(pattern, target.tests), encoding="utf-8")


def _configuration(pattern: str, tests: Sequence[Path]) -> str:
    pytest = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]
    sections: dict[str, dict[str, Any]] = {
        "tool.mutmut": {
            "source_paths": ["src"],
            "only_mutate": [pattern],
            "also_copy": ["docs", "conftest.py"],
            "pytest_add_cli_args_test_selection": [str(each) for each in tests],
            "use_git_change_detection": False,
            "timeout_multiplier": 3.0,  # of the tests' CPU time, doubled; mutmut's 15 lets endless loops run for many minutes
        },
        "tool.pytest.ini_options": pytest["ini_options"],
    }
    # JSON's strings, numbers, lists and booleans are TOML's, too.
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in section.items())
        for name, section in sections.items()
    )


def draw_sample(folder: Path, count: int) -> list[str]:
    """Makes the mutants; returns the names of some, the same ones whenever the code is the same.

    Raises:
        MutantsError: mutmut failed; its output says why.
    """
    if subprocess.run([sys.executable, "-c", _GENERATE], cwd=folder, check=False).returncode:
        raise MutantsError("mutmut could not make the mutants; see above")
    names = sorted(_exit_codes(folder))
    return sorted(random.Random(count).sample(names, min(count, len(names))))


def run_mutmut(folder: Path, processes: int, sample: Sequence[str] = ()) -> None:
    """Runs mutmut in a workspace.

    Args:
        folder: the workspace.
        processes: mutants that are tried at a time.
        sample: the mutants to try; those that an earlier run tried are not tried again. Empty: all.

    Raises:
        MutantsError: it ended before they were tried; its output says why.
    """
    codes = _exit_codes(folder) if sample else {}
    names = [name for name in sample if codes[name] is None]
    if sample and not names:
        return
    # The same examples of properties for all mutants: a mutant is killed by the tests, and not by chance.
    environment = {**os.environ, "CI": "true", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(processes), *names]
    if subprocess.run(command, cwd=folder, env=environment, check=False).returncode:
        raise MutantsError("mutmut has failed; see above")


def result_of(folder: Path, sample: Sequence[str] = ()) -> dict[str, Any]:
    """Reads what mutmut found out: counts, and the survivors with what was changed; of the sample alone, if there is one.

    Raises:
        MutantsError: there are no mutants.
    """
    found = _exit_codes(folder)
    codes = {name: found[name] for name in sample} if sample else found
    if not codes:
        raise MutantsError(f"{folder} has no mutants")
    out_of_time = sum(code in _OUT_OF_TIME for code in codes.values())
    killed = out_of_time + sum(code in _FAILED for code in codes.values())
    survivors = [name for name, code in codes.items() if code in _SURVIVED]
    unreached = [name for name, code in codes.items() if code in _NO_TESTS]
    return {
        "mutants": len(codes),
        "drawn_from": len(found),
        "killed": killed,
        "killed_percent": round(100 * killed / len(codes), 1),
        "out_of_time": out_of_time,
        "not_tried": sum(code is None for code in codes.values()),
        "survivors": [{"function": _function(name), "change": _change(folder, name)} for name in survivors],
        "reached_by_no_test": sorted({_function(name) for name in unreached}),
    }


def _exit_codes(folder: Path) -> dict[str, int | None]:
    """Returns what became of each mutant: the exit code of its tests; None: not tried yet."""
    return {
        name: code
        for file in sorted((folder / "mutants").rglob("*.meta"))
        for name, code in json.loads(file.read_text(encoding="utf-8"))["exit_code_by_key"].items()
    }


def _function(mutant: str) -> str:
    """Returns the dotted name of the mutated function: `laneway.lanes.table.xǁLaneTableǁadmit__mutmut_3` is LaneTable.admit."""
    module, _, mangled = mutant.partition("__mutmut_")[0].rpartition(".")
    name = (
        mangled.removeprefix("x_")
        if mangled.startswith("x_")
        else mangled.removeprefix("xǁ").replace("ǁ", ".")
    )
    return f"{module}.{name}"


def _change(folder: Path, mutant: str) -> str:
    with chdir(folder):  # mutmut reads its configuration from there when it is imported
        from mutmut.mutation.diff_apply import get_diff_for_mutant

        shown = get_diff_for_mutant(mutant)
    changed = [line for line in shown.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    before = " ".join(line[1:].strip() for line in changed if line.startswith("-"))
    after = " ".join(line[1:].strip() for line in changed if line.startswith("+"))
    return f"{before} → {after}"


def _shown(found: dict[str, Any]) -> Iterator[str]:
    if (total := found.get("drawn_from", found["mutants"])) > found["mutants"]:
        yield f"Drawn at random: {found['mutants']} of {total} mutants. "
    yield f"{found['killed']} of {found['mutants']} mutants killed: **{found['killed_percent']} %** (goal {GOAL_PERCENT} %), "
    yield f"{found['out_of_time']} of them by running out of time.\n\n"
    if found["reached_by_no_test"]:
        names = ", ".join(f"`{name}`" for name in found["reached_by_no_test"])
        yield f"Reached by none of these tests: {names}.\n\n"
    functions = Counter(each["function"] for each in found["survivors"]).most_common(_MOST_FUNCTIONS)
    if functions:
        most = ", ".join(f"`{name}` ({count})" for name, count in functions)
        yield f"Most survivors are in {most}. The result file says of each what was changed.\n"


def block_of(results: Path) -> Block:
    """Returns the part of the page with one section for each module that has a result."""
    names = sorted(file.stem for file in results.glob(f"{_PREFIX}*.json"))
    return Block(
        "mutants", "mutants", {name: (f"Mutants of {name.removeprefix(_PREFIX)}", _shown) for name in names}
    )


def main() -> int:
    """Does what the command line says; returns the exit status: 1 where fewer than the goal were killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.performance.mutants", description=__doc__)
    parser.add_argument("--only", required=True, help="a module, as laneway.lanes")
    parser.add_argument(
        "--tests", default="", help="folders of tests; default: the unit tests that mirror the module"
    )
    parser.add_argument("--sample", type=int, default=0, help="try as many mutants, drawn at random; 0: all")
    parser.add_argument("--results", type=Path, required=True, help="the folder for the JSON file")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run has found out")
    options = parser.parse_args()
    machine = this_machine()
    try:
        target = target_of(options.only, options.tests.split())
        folder = WORKSPACES / target.name
        if options.fresh:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        make_workspace(target, folder)
        sample = draw_sample(folder, options.sample) if options.sample else []
        run_mutmut(folder, options.processes, sample)
        result = result_of(folder, sample)
    except MutantsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    sampled = f" SAMPLE={options.sample}" if options.sample else ""
    found = {
        "command": f"make mutants ONLY={target.name}{sampled}",
        "machine": asdict(machine),
        "result": result,
    }
    file = options.results / f"{_PREFIX}{target.name}.json"
    file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    write_page(options.results, block_of(options.results))
    print("".join(_shown(result)))
    return 0 if result["killed_percent"] >= GOAL_PERCENT else 1


if __name__ == "__main__":
    sys.exit(main())
