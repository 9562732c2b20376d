"""A machine with a GPU has PyTorch and what `make gpu-wheels` brings, and nothing else of this project's requirements."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.gpu.wheels import PACKAGES

ROOT = Path(__file__).resolve().parents[3]
IMPORT = """
import importlib, sys
here, there = sys.argv[1].split(","), set(sys.argv[2].split(","))

class Absent:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in there and top not in sys.stdlib_module_names and not top.startswith("_"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in [name for name in sys.modules if name.partition(".")[0] not in sys.stdlib_module_names]:
    there.add(name.partition(".")[0])  # of a virtual environment's own start
sys.meta_path.insert(0, Absent())
for module in here:
    importlib.import_module(module)
"""
OTHER_NAMES = {"pyyaml": "yaml", "nvidia-ml-py": "pynvml"}
OURS = ("laneway", "tests", "hack", "readiness", "torch", "py")
NOT_THERE = ("wheels", "__main__")
"""What makes the wheels, and the program itself, which starts with the standard library."""


def test_its_modules_import_nothing_that_such_a_machine_lacks() -> None:
    modules = [
        f"tests.{folder}.{path.stem}"
        for folder in ("gpu", "performance/gpu")
        for path in sorted((ROOT / "tests" / folder).glob("*.py"))
        if path.stem not in NOT_THERE
    ]
    there = [OTHER_NAMES.get(package, package.replace("-", "_")) for package in PACKAGES]
    names = ",".join(modules).replace("/", ".")
    done = subprocess.run(
        [sys.executable, "-c", IMPORT, names, ",".join([*there, *OURS])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
