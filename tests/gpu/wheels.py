"""Puts into `.wheels` what a machine with PyTorch, a GPU and no network may lack: `make gpu-wheels`.

That is wheels of the locked versions, hashes checked, which `python3 tests/gpu` unpacks there beside what is installed, and the
interposer, for a machine without a C compiler.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.gpu.interposer import PREBUILT, build, zig

REPOSITORY = Path(__file__).resolve().parents[2]
LOCK = REPOSITORY / "requirements/dev.txt"
PACKAGES = (
    "annotated-types",
    "iniconfig",
    "nvidia-ml-py",
    "packaging",
    "pluggy",
    "prometheus-client",
    "pydantic",
    "pydantic-core",
    "pygments",
    "pytest",
    "pyyaml",
    "typing-extensions",
    "typing-inspection",
)
"""What `tests.gpu` imports beside PyTorch, with all that these need."""

PLATFORMS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014", "manylinux_2_5", "manylinux1")


def locked(lock: str, packages: tuple[str, ...]) -> str:
    """Return the entries of some packages, with their hashes, out of a lock file's text.

    Raises:
        ValueError: one is not in it.
    """
    entries = {entry.partition("==")[0].strip(): entry for entry in lock.replace("\\\n", "\0").splitlines()}
    absent = [package for package in packages if package not in entries]
    if absent:
        raise ValueError(f"{', '.join(absent)}: not in the lock file")
    return "\n".join(entries[package].replace("\0", "\\\n") for package in packages) + "\n"


def main() -> int:
    """Build the interposer and download the wheels; returns pip's exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python-version", default="3.12", help="of the machine with the GPU (%(default)s)")
    parser.add_argument("--machine", default="x86_64", help="x86_64 or aarch64 (%(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        built = build(Path(folder), zig(options.machine))
        PREBUILT.parent.mkdir(exist_ok=True)
        shutil.copyfile(built, PREBUILT)
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        wanted.write(locked(LOCK.read_text(encoding="utf-8"), PACKAGES))
        wanted.flush()
        command = ["download", "--quiet", "--require-hashes", "--no-deps", "--only-binary=:all:"]
        command += ["--implementation", "cp", "--python-version", options.python_version]
        command += [f"--platform={platform}_{options.machine}" for platform in PLATFORMS]
        command += ["--dest", str(REPOSITORY / ".wheels"), "--requirement", wanted.name]
        return subprocess.run([sys.executable, "-m", "pip", *command], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
