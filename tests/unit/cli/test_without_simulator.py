"""The command line where ``laneway-cli`` was installed without the simulator."""

from __future__ import annotations

import subprocess
import sys

import pytest
from laneway.cli import exit_codes

# None in sys.modules: the import fails as that of a package that is not installed.
START = """
import sys
for name in ("laneway.simulator", "numpy", "scipy", "plotly"):
    sys.modules[name] = None
from laneway.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", START, *words], check=False, capture_output=True, text=True)


def test_other_verbs_need_no_simulator() -> None:
    done = run("submit", "--dry-run", "client", "--", "true")
    assert done.returncode == exit_codes.OK, done.stderr
    assert "simulate" in run("--help").stdout


@pytest.mark.parametrize(
    ("verb", "words"),
    [("simulate", ["--trace", "x", "--nodes", "1x1"]), ("replay", ["--records", "x"])],
)
def test_the_others_say_what_to_install(verb: str, words: list[str]) -> None:
    done = run(verb, *words)
    assert done.returncode == exit_codes.USAGE
    assert f"{verb} needs the simulator: run pip install ./simulator in a clone of" in done.stderr
