"""The page on writing a policy: its example is built, installed, simulated and configured as the page says."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

REPOSITORY = Path(__file__).parents[4]
PAGE = (REPOSITORY / "docs/writing-a-policy.md").read_text(encoding="utf-8")
PROGRAMS = Path(sys.executable).parent


def block(language: str) -> str:
    """The one code block of a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert isinstance(found, str)
    return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the page's package installed, built by its own build backend, without a network."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    for text in (block("toml"), block("python")):
        first_line, _, rest = text.partition("\n")
        (source / first_line.removeprefix("# ")).write_text(rest, encoding="utf-8")
    assert sorted(path.name for path in source.iterdir()) == ["acme_policies.py", "pyproject.toml"]
    install = ["pip", "install", "--quiet", "--offline", "--no-deps", "--no-build-isolation"]
    python = ["--python", sys.executable, "--cache-dir", str(tmp_path_factory.mktemp("cache"))]
    subprocess.run(
        [str(PROGRAMS / "uv"), *install, *python, "--target", str(target), str(source)], check=True
    )
    return target


def run(command: list[str], folder: Path, installed: Path) -> str:
    """What a program writes that finds the package, as users' programs do."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    ran = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_policy_has_40_lines_at_most() -> None:
    lines = [line for line in (block("toml") + block("python")).splitlines() if line.strip()]
    assert len(lines) <= 40


def test_it_runs_in_the_simulator_and_gives_the_figures_of_the_page(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(block("csv"), encoding="utf-8")
    program, *arguments = shlex.split(block("sh"))
    assert program == "laneway"
    written = run([str(PROGRAMS / "laneway"), *arguments, "-o", "json"], tmp_path, installed)
    figures = {report["policy"]: report["average_jct_seconds"] for report in json.loads(written)}
    on_the_page = re.findall(r"^\| `([a-z.-]+)` \| ([0-9.]+) \|$", PAGE, re.MULTILINE)
    assert figures == {policy: float(seconds) for policy, seconds in on_the_page}


def test_a_shorter_patience_changes_what_the_page_says_it_does(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(block("csv"), encoding="utf-8")
    _, *arguments = shlex.split(block("sh").replace("patience_seconds=600", "patience_seconds=5"))
    written = run([str(PROGRAMS / "laneway"), *arguments, "-o", "json"], tmp_path, installed)
    fifo, small_first = json.loads(written)
    assert small_first["average_jct_seconds"] == fifo["average_jct_seconds"]


def test_the_operator_takes_it_from_the_values_of_the_page(installed: Path, tmp_path: Path) -> None:
    values = yaml.safe_load(block("yaml"))
    (tmp_path / "operator.yaml").write_text(yaml.safe_dump(values["operator"]["config"]), encoding="utf-8")
    code = (
        "from pathlib import Path; from laneway.operator.main import read_config; "
        "print(read_config(Path('operator.yaml')).scheduling.policies().order)"
    )
    assert (
        run([sys.executable, "-c", code], tmp_path, installed).strip() == "SmallFirst(patience_seconds=600.0)"
    )


def test_without_the_package_the_operator_says_which_policies_there_are(tmp_path: Path) -> None:
    (tmp_path / "operator.yaml").write_text(
        "scheduling: {order: {policy: acme.small-first}}", encoding="utf-8"
    )
    ran = subprocess.run(
        [str(PROGRAMS / "laneway-operator"), "--config", str(tmp_path / "operator.yaml")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 2
    assert "no order policy 'acme.small-first'; write one of" in ran.stderr


def test_every_protocol_that_the_page_names_is_there() -> None:
    modules = re.findall(r"`(laneway\.[a-z_.]+)`", PAGE)
    assert modules
    for module in {name for name in modules if name.startswith("laneway.scheduling.")}:
        assert find_spec(module) is not None, module
