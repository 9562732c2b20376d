"""The page on writing a policy: its example is built, installed, simulated and configured as the page says."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from laneway.scheduling import Demand, HostResources, Job, Node, Policies, Scheduler, policies
from laneway.scheduling.order.policy import AssignsModels

from tests.unit.core.scheduling.builders import a_job, a_node

REPOSITORY = Path(__file__).parents[4]
PAGE = (REPOSITORY / "docs/writing-a-policy.md").read_text(encoding="utf-8")
PROGRAMS = Path(sys.executable).parent


def blocks(language: str) -> list[str]:
    """The code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def block(language: str) -> str:
    """The first code block of a language."""
    return blocks(language)[0]


def example(name: str) -> Any:
    """The policy of a further example, with its default parameters."""
    (text,) = [text for text in blocks("python") if re.search(rf"^class {name}\b", text, re.MULTILINE)]
    module = ModuleType(name)
    sys.modules[name] = module  # a dataclass looks its module up
    exec(text, module.__dict__)
    return replace(getattr(module, name)())


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


def scheduler(nodes: list[Node], chosen: Policies, *jobs: Job) -> Scheduler:
    made = Scheduler(nodes, chosen)
    for job in jobs:
        made.observe(job)
    return made


def test_the_example_of_rounds_has_jobs_take_turns() -> None:
    policy = example("TakeTurns")
    assert isinstance(policy, AssignsModels)
    nodes = [a_node("a", 1), a_node("t", 1, model="T4")]
    chosen = replace(policies(placement="count", preemption_options={"min_run_seconds": 0}), order=policy)
    any_model, only_a = a_job("any").made, a_job("only-a").needs(models=("A100",)).created(1).made
    made = scheduler(nodes, chosen, any_model, only_a)
    assert set(made.decide(2.0).starts) == {"any", "only-a"}
    running = a_job("any").runs_on("a/0", since=2.0).made
    made = scheduler(nodes[:1], chosen, running, a_job("waits").created(1).made)
    made.decide(2.0)
    assert made.next_decision_seconds(2.0) == 602.0
    assert set(made.decide(602.0).preemptions) == {"any"}


def test_the_elastic_example_divides_gpus_evenly() -> None:
    jobs = [
        Job(name, Demand(1, min_workers=1, max_workers=8), created_seconds=at, explored_workers=8)
        for at, name in enumerate(("old", "middle", "young"))
    ]
    chosen = replace(policies(order="fifo"), elastic=example("Even"))
    starts = scheduler([a_node("n", 8)], chosen, *jobs).decide(9.0).starts
    assert {key: len(workers) for key, workers in starts.items()} == {"old": 2, "middle": 3, "young": 3}
    assert set(scheduler([a_node("n", 2)], chosen, *jobs).decide(9.0).starts) == {"old", "middle"}


def test_the_allocation_example_divides_cpus_evenly() -> None:
    node = replace(a_node("n", 4), host=HostResources.of({"cpu": 30_000, "memory": 60 * 2**30}))
    chosen = replace(policies(order="fifo"), allocation=example("EvenCPUs"))
    wide = a_job("wide").needs(1, gpus_per_worker=2).runs_on("n/0", "n/1").made
    made = scheduler([node], chosen, wide, a_job("one").runs_on("n/2").made)
    found = made.allotments(made.decide(0.0))
    assert {key: [each.cpu_millis for each in given] for key, given in found.items()} == {
        "wide": [15_000],
        "one": [15_000],
    }
