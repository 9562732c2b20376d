"""The Python interpreters of this machine, and runs of them with the interposer and nothing else of Laneway."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.isolation.building import ROOT

CLIENT = ROOT / "client" / "src"
BASE: str = getattr(sys, "_base_executable", sys.executable)
"""Not the virtual environment's interpreter, which has this client on its path anyway."""

FAKE_TORCH = """
import laneway.client.pytorch.hooks
installed = []
laneway.client.pytorch.hooks.install = installed.append
"""
STARTED = "import torch; assert torch.installed == [torch]; print('started')"
LOADED = "import sys; print(sorted(m for m in sys.modules if m.partition('.')[0] == 'laneway'))"


def interpreters() -> list[str]:
    """The base interpreter, the system's, and those of pyenv that have the client's oldest version or a later one."""
    found = {BASE, "/usr/bin/python3"} | {
        str(path)
        for path in Path.home().glob(".pyenv/versions/3.*/bin/python3")
        if int(path.parents[1].name.split(".")[1]) >= 8
    }
    return sorted(path for path in found if Path(path).exists())


def python_library() -> Path:
    """The shared library of the base interpreter."""
    folder, name = (sysconfig.get_config_var(key) for key in ("LIBDIR", "INSTSONAME"))
    return Path(folder) / name


@dataclass(frozen=True)
class PythonContainer:
    """An image with a fake PyTorch, and the interposer in each of its processes."""

    interposer: Path
    image: Path
    """Holds the image's modules."""

    def run(
        self, command: Sequence[str | Path], variables: Mapping[str, str] | None = None, text: str = ""
    ) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": os.environ["PATH"], "LD_PRELOAD": str(self.interposer), **(variables or {})}
        return subprocess.run(
            [str(part) for part in command],
            env=environment,
            cwd=self.image,
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def path(self) -> str:
        """Code that puts the image's modules on the path, for interpreters that ignore the environment."""
        return f"import sys; sys.path.append({str(self.image)!r})"

    def prints(self, command: Sequence[str | Path], **variables: str) -> list[str]:
        """The lines that a program prints, which succeeds and reports nothing."""
        done = self.run(command, variables)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()
