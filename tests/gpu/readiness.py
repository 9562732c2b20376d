"""What a machine lacks for these tests, as a sentence. Standard library only: it has to run where nothing is installed."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys

MODULES = {
    "torch": "torch",
    "pydantic": "pydantic",
    "yaml": "pyyaml",
    "prometheus_client": "prometheus-client",
    "pynvml": "nvidia-ml-py",
    "pytest": "pytest",
}
"""The required modules, and the packages that provide them."""

_LOOK = (
    "import torch; cuda = torch.cuda; "
    "print(cuda.get_device_name(0) if cuda.is_available() else 'no CUDA device for PyTorch %s' % torch.__version__); "
    "raise SystemExit(0 if cuda.is_available() else 1)"
)


def what_is_missing(device: str) -> str:
    """Return what is missing and how to fix it; empty if nothing is."""
    return why_no_driver(device) or why_no_packages(device) or why_no_cuda(device)


def why_no_driver(device: str) -> str:
    """Return why the driver's GPUs cannot be shared between processes."""
    if device == "cuda" and shutil.which("nvidia-smi") is None:
        return "this machine has no NVIDIA driver (there is no nvidia-smi): run it on a machine with an NVIDIA GPU"
    if device == "cuda" and "Default" not in _compute_modes():
        return "no GPU lets several processes in: set its compute mode, nvidia-smi --compute-mode DEFAULT"
    return ""


def why_no_packages(device: str) -> str:
    """Return what this interpreter lacks."""
    if sys.version_info < (3, 11):  # noqa: UP036 - whatever python3 is on that machine runs this
        return _other_python(
            f"{sys.executable} is Python {sys.version_info[0]}.{sys.version_info[1]}; 3.11 is needed"
        )
    needed = {name: package for name, package in MODULES.items() if device == "cuda" or name != "torch"}
    absent = [package for name, package in needed.items() if importlib.util.find_spec(name) is None]
    return _other_python(f"{sys.executable} has no {', '.join(absent)}") if absent else ""


def why_no_cuda(device: str) -> str:
    """Return why PyTorch cannot use a GPU."""
    if device != "cuda":
        return ""
    looked = subprocess.run([sys.executable, "-c", _LOOK], capture_output=True, text=True, check=False)
    if not looked.returncode:
        return ""
    said = (looked.stdout or looked.stderr).strip().splitlines()
    return f"PyTorch sees no GPU: {said[-1] if said else 'it said nothing'}"


def _compute_modes() -> str:
    query = ["nvidia-smi", "--query-gpu=compute_mode", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout


def _other_python(what: str) -> str:
    return (
        f"{what}: install that there, or name another interpreter (make test-gpu GPU_PYTHON=/path/to/python3), or put wheels into a "
        "folder (make gpu-wheels; docs/real-gpu.md)"
    )
