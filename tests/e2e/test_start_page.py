"""Every command of docs/start.md runs as it is written, and prints what the page shows.

The fixture's cluster stands in for the page's own, with the configuration that the demo leaves there. So the commands that make, name
and remove that one are left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from hack.cluster.commands import run
from hack.cluster.probes import wait_until
from hack.demo.install import REPOSITORY
from hack.demo.scenario import SHARING_VALUES
from tests.e2e.conftest import Bench, Laneway
from tests.e2e.node_view import wait_until_offered
from tests.support.tutorial import Comparison, Step, steps

_OWN_CLUSTER = ("make demo", "export KUBECONFIG=", "make cluster-down")


_SHOWS_SESSIONS = "kubectl laneway top"


@pytest.fixture
def as_the_demo_leaves_it(laneway: Laneway) -> Iterator[None]:
    """One GPU a node, which jobs share."""
    laneway.installation.upgrade("--values", SHARING_VALUES)
    wait_until_offered(laneway, 1, "lanes")
    yield
    laneway.installation.upgrade()
    wait_until_offered(laneway, 4, "off")


@pytest.fixture
def environment(bench: Bench, tmp_path: Path) -> dict[str, str]:
    """A shell's, whose kubeconfig names the test's namespace."""
    kubectl, kubeconfig = bench.laneway.kubectl, tmp_path / "kubeconfig"
    shutil.copyfile(kubectl.kubeconfig, kubeconfig)
    context = ("config", "set-context", "--current", "--namespace", bench.namespace)
    run([kubectl.program, "--kubeconfig", kubeconfig, *context])
    return {**os.environ, "KUBECONFIG": str(kubeconfig)}


def typed(exports: str, commands: str, environment: dict[str, str]) -> str:
    """Runs commands in a shell; returns what they printed."""
    done = subprocess.run(
        ["bash", "-euc", exports + commands],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{commands}{done.stdout}{done.stderr}"
    return done.stdout


def shows(compare: Comparison, step: Step, exports: str, environment: dict[str, str]) -> bool:
    """Whether a step's commands print now what the page shows."""
    return compare.missing(step.shown, typed(exports, step.commands, environment)) == []


def test_the_commands_run_in_order(as_the_demo_leaves_it: None, environment: dict[str, str]) -> None:
    compare = Comparison()
    page = (REPOSITORY / "docs" / "start.md").read_text(encoding="utf-8")
    left_out, exports = [], ""
    for step in steps(page):
        lines = step.commands.splitlines(keepends=True)
        left_out += [line.strip() for line in lines if line.startswith(_OWN_CLUSTER)]
        commands = "".join(line for line in lines if not line.startswith(_OWN_CLUSTER))
        exports += "".join(line for line in lines if line.startswith("export PATH="))
        if commands.strip() == _SHOWS_SESSIONS:
            # The nodes report every few seconds, and a worker has a lane once its slow imports are over.
            wait_until(
                partial(shows, compare, step, exports, environment), f"{commands}shows {step.shown}", 180
            )
            continue
        printed = typed(exports, commands, environment)
        assert compare.missing(step.shown, printed) == [], f"{commands}{printed}"
    assert [line.partition("=")[0] for line in left_out] == [name.rstrip("=") for name in _OWN_CLUSTER]
