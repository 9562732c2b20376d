"""Recipes of the root file systems that replace base images where no image registry is reachable.

Data only. The name of a root file system in the cache ends in the hash of its recipe, so a change here makes a new one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

SUITE = "trixie"
"""Debian 13: its Python is 3.13, for which the requirement files are locked, and it has PyTorch 2.6 without CUDA."""

MADE = 1754697600
"""The day of Debian 13's release, in seconds since 1970: the time of base images and of all files in them."""

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"


@dataclass(frozen=True)
class Recipe:
    """One root file system.

    Attributes:
        packages: what apt installs on top of the bootstrap (or of `parent`), without recommended packages; a reinstallation
            restores files that `parent` has removed.
        parent: the root file system that it begins from; None for debootstrap's.
        requirements: a locked requirement file (a name under `requirements/`) whose wheels are installed where Debian's own Python
            finds them; empty for none.
        remove: glob patterns, relative to the root, of what an image has no use for.
        warm_up: Python that runs once in it after all byte code is gone, so that exactly the modules which it imports have theirs.
    """

    name: str
    packages: tuple[str, ...]
    parent: str | None = None
    remove: tuple[str, ...] = ()
    warm_up: str = ""
    requirements: str = field(default="", repr=False)


DOCUMENTATION = (
    "usr/share/doc/*",
    "usr/share/doc-base/*",
    "usr/share/info/*",
    "usr/share/lintian/*",
    "usr/share/locale/*",
    "usr/share/man/*",
)
APT_LEFTOVERS = (
    "var/cache/apt/*",
    "var/cache/debconf/*-old",
    "var/cache/ldconfig/*",
    "var/lib/apt/lists/*",
    "var/lib/dpkg/*-old",
    "var/lib/dpkg/available",
    "var/log/*.log",
    "var/log/apt/*",
)

WITH_TESTS = ("fsspec", "networkx", "scipy", "sklearn", "sympy")

PYTHON = Recipe(
    name="python",
    # python3-venv carries ensurepip, by which the Dockerfile's build stages get pip as they do on python:3.13-slim.
    packages=("ca-certificates", "python3", "python3-venv"),
    remove=(*DOCUMENTATION, *APT_LEFTOVERS),
)

EXAMPLES = Recipe(
    name="examples",
    parent="python",
    packages=("python3-sklearn", "python3-torch"),
    remove=(
        *DOCUMENTATION,
        *APT_LEFTOVERS,
        "usr/include/*",
        "usr/lib/**/*.a",
        "usr/lib/libtorch-test",
        "usr/lib/python3/dist-packages/torch/bin/*[Tt]est*",
        "usr/lib/python3/dist-packages/torch/bin/tutorial_*",
        "usr/lib/python3/dist-packages/torch/include",
        # Not NumPy's: numpy.testing, which SciPy imports, needs a module from among its tests.
        *(f"usr/lib/python3/dist-packages/{package}/**/tests" for package in WITH_TESTS),
        # AMD's compiler and runtime (220 MB): only UCX's plug-in for ROCm asks for them, and loads without.
        "usr/lib/*-linux-gnu/libLLVM*.so*",
        "usr/lib/*-linux-gnu/libamd_comgr.so*",
        "usr/lib/*-linux-gnu/libamdhip64.so*",
        "usr/lib/*-linux-gnu/ucx/libuc?_rocm*",
    ),
    # A pod that must compile PyTorch's modules first starts seconds later; with byte code for all modules the image is 150 MB larger.
    warm_up=(
        "import torch, torch.distributed, torch.optim, torch.nn.parallel, torch.utils.data, torch.utils.checkpoint\n"
        "import sklearn.datasets, sklearn.model_selection\n"
        "model = torch.nn.Linear(64, 10)\n"
        "optimizer = torch.optim.Adam(model.parameters())\n"
        "features, labels = sklearn.datasets.load_digits(return_X_y=True)\n"
        "torch.nn.functional.cross_entropy(model(torch.tensor(features).float()), torch.tensor(labels)).backward()\n"
        "optimizer.step()\n"
    ),
)

FRAMEWORKS = Recipe(
    name="frameworks",
    parent="examples",
    # What torch.compile builds its kernels with: a compiler, the headers of PyTorch and Python.
    packages=("g++", "libtorch-dev", "python3-dev", "python3-setuptools", "python3-torch"),
    requirements="frameworks.txt",
    remove=(*DOCUMENTATION, *APT_LEFTOVERS),
    warm_up=(
        "import torch, torch.distributed.fsdp, torch.distributed.run, torch.utils.data\n"
        "import sklearn.datasets\n"
        "import accelerate, jax, jax.numpy, pytorch_lightning\n"
        "import ipykernel.kernelapp, nbclient, nbformat\n"
        "from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments\n"
        "jax.jit(jax.grad(lambda x: (x**2).sum()))(jax.numpy.ones(3))\n"
        "model = torch.nn.Linear(2, 2)\n"
        "torch.compile(model)(torch.ones(2, 2)).sum().backward()\n"
    ),
)
"""For tests only: training frameworks on top of the examples' PyTorch."""

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (PYTHON, EXAMPLES, FRAMEWORKS)}


def recipe_hash(recipe: Recipe) -> str:
    """Returns 12 hex digits that change with the recipe, its requirement file and its base recipe."""
    parent = recipe_hash(RECIPES[recipe.parent]) if recipe.parent else ""
    digest = hashlib.sha256(f"{SUITE} {recipe!r} {parent}".encode())
    if recipe.requirements:
        digest.update((REQUIREMENTS / recipe.requirements).read_bytes())
    return digest.hexdigest()[:12]
