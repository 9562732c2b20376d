"""Python's start-up hook: prepares the client in containers with a share, then runs the image's own
sitecustomize.

This file is first on the path (PYTHONPATH=/opt/laneway:/run/laneway/image-pythonpath), so it hides a later
sitecustomize and runs it itself. The second entry is a placeholder for the image's own PYTHONPATH, which the
container's variable has replaced; it is expanded first. Without LANEWAY_DIR nothing else happens. With it,
one import hook is installed until PyTorch is imported.
"""

from __future__ import annotations

import os
import sys

try:  # already loaded by the interpreter; importlib.util takes longer than everything else here
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import PathFinder
except ImportError:
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

TYPE_CHECKING = False  # importing typing takes milliseconds
if TYPE_CHECKING:
    from typing import Any

FOLDER_VARIABLE = "LANEWAY_DIR"
IMAGE_PATH_NAME = "image-pythonpath"
"""A file in that folder with the image's PYTHONPATH. It is missing where the image sets none, or where it is
unknown."""


def pin_version() -> None:
    """Replaces the client's folder in this process's path by the version that its links name now.

    An update renames the links; modules that are imported later have to be of the version that has started.
    """
    folder = os.path.dirname(os.path.abspath(__file__))
    version = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [version if os.path.abspath(entry) == folder else entry for entry in sys.path]


def put_images_path_in_place() -> None:
    """Replaces the placeholder for the image's PYTHONPATH, in this process's path and in the environment of
    its children.

    Interpreters started from here find no placeholder any more, and use the variable as it is. Never raises.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return
    placeholder = os.path.join(folder, IMAGE_PATH_NAME)
    variable = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if placeholder not in variable and placeholder not in sys.path:
        return
    try:
        entries = _images_path(placeholder)
        if placeholder in variable:
            os.environ["PYTHONPATH"] = os.pathsep.join(_with(entries, placeholder, variable))
        # As Python itself treats PYTHONPATH: absolute entries without duplicates.
        absolute = _with([os.path.abspath(entry) for entry in entries], placeholder, sys.path)
        sys.path[:] = dict.fromkeys(absolute)
    except Exception as error:
        print(f"laneway: cannot add the image's PYTHONPATH to the path: {error!r}", file=sys.stderr)


def _images_path(file_path: str) -> list[str]:
    try:
        with open(file_path, "rb") as file:
            text = os.fsdecode(file.read())
    except FileNotFoundError:
        return []
    return text.split(os.pathsep) if text else []


def _with(entries: list[str], placeholder: str, path: list[str]) -> list[str]:
    return [each for entry in path for each in (entries if entry == placeholder else [entry])]


def prefer_scripts_jax_fraction() -> None:
    """Lets the fraction of memory that the script sets for JAX replace the container's. Never raises."""
    if not os.environ.get(FOLDER_VARIABLE) or not os.environ.get("XLA_CLIENT_MEM_FRACTION"):
        return
    try:
        from laneway.client.jax_memory import prefer_scripts_fraction

        prefer_scripts_fraction()
    except Exception as error:
        print(f"laneway: JAX may refuse the container's memory fraction: {error!r}", file=sys.stderr)


def prepare_client() -> None:
    """Installs the import hook. Never raises: an internal error must not keep a user's script from starting."""
    if not os.environ.get(FOLDER_VARIABLE):
        return
    try:
        from laneway.client.torch_import import prepare

        prepare(_install_torch_hooks)
    except Exception as error:
        print(f"laneway: the script runs without the client: {error!r}", file=sys.stderr)


def _install_torch_hooks(torch: Any) -> None:
    from laneway.client.pytorch.hooks import install

    install(torch)


def run_next_sitecustomize() -> None:
    """Runs the sitecustomize that this file hides, if there is one, as Python would. Its exceptions pass
    through."""
    # Only look behind this folder: two copies of this file on the path must not call each other forever.
    folders = [os.path.realpath(entry) for entry in sys.path]
    here = os.path.dirname(os.path.realpath(__file__))
    behind = len(folders) - folders[::-1].index(here) if here in folders else 0
    spec = PathFinder.find_spec("sitecustomize", sys.path[behind:])
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


pin_version()
put_images_path_in_place()
prefer_scripts_jax_fraction()
prepare_client()
run_next_sitecustomize()
