"""Real PyTorch, and the libraries over it, for tests: this interpreter's if it has them, else a root file
system of `hack.images`.

The root file system is entered in a mount namespace of its own, so nothing stays mounted when the process
ends in any way. It is entered by exec alone, so the started process is the Python process itself, for signals
and waiting.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CLIENT = REPOSITORY / "client" / "src"
FRAMEWORKS = ("torch", "accelerate", "ipykernel", "jax", "nbclient", "pytorch_lightning", "transformers")

ENTER = """
root=$1 scripts=$2 work=$3 client=$4 laneway=$5
shift 5
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/opt"
mount -t tmpfs tmpfs "$root/srv"
mkdir "$root/opt/laneway" "$root/run/laneway" "$root/srv/scripts" "$root/srv/work"
mount --bind "$client" "$root/opt/laneway"
mount --bind "$laneway" "$root/run/laneway"
mount --bind "$scripts" "$root/srv/scripts"
mount --bind "$work" "$root/srv/work"
exec chroot "$root" sh -c 'cd /srv/work && exec "$@"' sh "$@"
"""


@dataclass(frozen=True)
class TorchRuntime:
    """A place in which scripts run with PyTorch."""

    root: Path | None
    """A root file system; None for this interpreter."""

    def start(
        self, command: list[str], scripts: Path, work: Path, laneway: Path | None = None, **environment: str
    ) -> subprocess.Popen[str]:
        """Starts a Python process.

        Args:
            command: the arguments of `python3`; a script's name is relative to `scripts`, its files to
                `work`.
            scripts: the folder of the scripts.
            work: the working directory.
            laneway: the container's folder with `agent.sock`; None to run without Laneway.
            environment: more variables.
        """
        scripts_inside = "/srv/scripts" if self.root else str(scripts)
        variables = {
            "PATH": os.environ["PATH"],
            "HOME": "/tmp",
            "LC_ALL": "C.UTF-8",
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            **environment,
        }
        if laneway is not None:
            variables["PYTHONPATH"] = "/opt/laneway" if self.root else str(CLIENT)
            variables["LANEWAY_DIR"] = "/run/laneway" if self.root else str(laneway)
        arguments = [
            f"{scripts_inside}/{word}" if word.endswith(".py") and (scripts / word).is_file() else word
            for word in command
        ]
        if self.root is None:
            line = [sys.executable, *arguments]
        else:
            inside = [str(folder) for folder in (self.root, scripts, work, CLIENT, laneway or work)]
            line = ["unshare", "--mount", "--propagation", "private", "sh", "-e", "-c", ENTER, "sh", *inside]
            line += ["python3", *arguments]
        return subprocess.Popen(
            line, env=variables, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )


@cache
def torch_runtime() -> TorchRuntime:
    """Returns the runtime of this machine; creates the root file system if necessary, which takes minutes.

    Raises:
        RuntimeError: there is neither PyTorch nor a way to make a root file system; the message says what is
            missing.
    """
    return _runtime("examples", ("torch",))


@cache
def frameworks_runtime() -> TorchRuntime:
    """Returns such a runtime with the libraries through which people train.

    Raises:
        RuntimeError: as above.
    """
    return _runtime("frameworks", FRAMEWORKS)


def _runtime(name: str, modules: tuple[str, ...]) -> TorchRuntime:
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if not missing:
        return TorchRuntime(None)
    made = subprocess.run(
        [sys.executable, "-m", "hack.images", "rootfs", name],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        raise RuntimeError(
            f"no {', '.join(missing)}: neither in this interpreter nor as the root file system {name!r}; see the lines above"
        )
    runtime = TorchRuntime(Path(made.stdout.strip()))
    _compile_client(runtime)
    return runtime


def _compile_client(runtime: TorchRuntime) -> None:
    """Makes byte code of the client for the runtime's Python. Else each of the scripts would compile it again."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        compiled = runtime.start(["-m", "compileall", "-q", "/opt/laneway"], work, work)
        output, errors = compiled.communicate()
    if compiled.returncode != 0:
        raise RuntimeError(f"the client has no byte code for the root file system's Python: {output}{errors}")
