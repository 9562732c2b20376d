"""The client's image is built from its wheel."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.support.torch_runtime import CLIENT, REPOSITORY


def test_the_wheel_holds_all_of_the_client(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=REPOSITORY / "client", check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    sources = {
        path.relative_to(CLIENT).as_posix() for path in CLIENT.rglob("*") if path.suffix in (".py", ".typed")
    }
    assert held == sources
    assert "sitecustomize.py" in held
