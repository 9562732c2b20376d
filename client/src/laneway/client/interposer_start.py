"""The client's start by the memory interposer, which finds scripts that use PyTorch or JAX in any Python.

Its finder (node_agent/interposer/python_start.c) is asked for each module. It has put the client's folder on
the path and calls this module when a script first looks for PyTorch or JAX. No environment variable is needed.
"""

from __future__ import annotations

import os

from laneway.client.jax_memory import prefer_scripts_fraction
from laneway.client.torch_import import prepare

TYPE_CHECKING = False  # importing typing takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Optional


def find_spec(
    name: str, path: Optional[Sequence[str]], target: Optional[ModuleType], folder: str
) -> Optional[ModuleSpec]:
    """Prepares the client for the module `name`, PyTorch or JAX.

    Args:
        name: as in a finder's `find_spec`, like the next two.
        path: for a submodule, its package's path.
        target: the module that is reloaded.
        folder: with the agent's socket. `LANEWAY_DIR` replaces it, where the environment still has it.

    Returns:
        PyTorch's spec, which installs the hooks; None where other finders are to be asked.
    """
    os.environ.setdefault("LANEWAY_DIR", folder)
    if name != "torch":
        prefer_scripts_fraction()
        return None
    finder = prepare(_install_hooks)
    if finder is None:
        return None
    return finder.find_spec(name, path, target)


def _install_hooks(torch: ModuleType) -> None:
    from laneway.client.pytorch.hooks import install  # only now: it takes most of the client's modules

    install(torch)
