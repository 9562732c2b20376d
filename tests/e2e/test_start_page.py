"""Every command of docs/start.md runs as it is written, and prints what the page shows.

The fixture's cluster stands in for the page's own, so the commands that make, name and remove that one are left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from hack.cluster.commands import run
from hack.demo.install import REPOSITORY
from tests.e2e.conftest import Bench
from tests.support.tutorial import missing, steps

_OWN_CLUSTER = ("make demo", "export KUBECONFIG=", "make cluster-down")


@pytest.fixture
def environment(bench: Bench, tmp_path: Path) -> dict[str, str]:
    """A shell's, whose kubeconfig names the test's namespace."""
    kubectl, kubeconfig = bench.laneway.kubectl, tmp_path / "kubeconfig"
    shutil.copyfile(kubectl.kubeconfig, kubeconfig)
    context = ("config", "set-context", "--current", "--namespace", bench.namespace)
    run([kubectl.program, "--kubeconfig", kubeconfig, *context])
    return {**os.environ, "KUBECONFIG": str(kubeconfig)}


def test_the_commands_run_in_order(environment: dict[str, str]) -> None:
    page = (REPOSITORY / "docs" / "start.md").read_text(encoding="utf-8")
    left_out, exports = [], ""
    for step in steps(page):
        lines = step.commands.splitlines(keepends=True)
        left_out += [line.strip() for line in lines if line.startswith(_OWN_CLUSTER)]
        commands = "".join(line for line in lines if not line.startswith(_OWN_CLUSTER))
        exports += "".join(line for line in lines if line.startswith("export PATH="))
        done = subprocess.run(
            ["bash", "-euc", exports + commands],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{commands}{done.stdout}{done.stderr}"
        assert missing(step.shown, done.stdout) == [], f"{commands}{done.stdout}"
    assert [line.partition("=")[0] for line in left_out] == [name.rstrip("=") for name in _OWN_CLUSTER]
