"""Python's own start-up hook: prepares the client where Laneway gave the container a share, then runs the image's own sitecustomize.

This file comes first on the path (PYTHONPATH=/opt/laneway:/run/laneway/image-pythonpath), so it hides a sitecustomize further on; that
one is run here in its place. The path's second entry stands for what the image's own PYTHONPATH names, which the container's has replaced:
it is put there first. Without LANEWAY_DIR nothing else happens; with it, nothing but one import hook until PyTorch is imported.
"""

from __future__ import annotations

import os
import sys

try:  # what is loaded in any case: importlib.util takes longer than all else here
    from _frozen_importlib import module_from_spec
    from _frozen_importlib_external import PathFinder
except ImportError:
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

FOLDER_VARIABLE = "LANEWAY_DIR"
IMAGE_PATH_NAME = "image-pythonpath"
"""In that folder: what the image sets PYTHONPATH to. The file is not there where the image sets none, or where nobody could tell."""


def put_images_path_in_place() -> None:
    """Replaces the entry that stands for the image's PYTHONPATH, in this process's path and for those that it starts.

    An interpreter further down finds no such entry any more, and goes by what it is given. Never raises.
    """
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return
    stand_in = os.path.join(folder, IMAGE_PATH_NAME)
    variable = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if stand_in not in variable and stand_in not in sys.path:
        return
    try:
        entries = _images_path(stand_in)
        if stand_in in variable:
            os.environ["PYTHONPATH"] = os.pathsep.join(_with(entries, stand_in, variable))
        # As Python itself has made it of PYTHONPATH by now: absolute, and nothing twice.
        absolute = _with([os.path.abspath(entry) for entry in entries], stand_in, sys.path)
        sys.path[:] = dict.fromkeys(absolute)
    except Exception as error:
        print(f"laneway: the image's own PYTHONPATH is not on the path: {error!r}", file=sys.stderr)


def _images_path(file_path: str) -> list[str]:
    try:
        with open(file_path, "rb") as file:
            text = os.fsdecode(file.read())
    except FileNotFoundError:
        return []
    return text.split(os.pathsep) if text else []


def _with(entries: list[str], stand_in: str, path: list[str]) -> list[str]:
    return [each for entry in path for each in (entries if entry == stand_in else [entry])]


def prepare_client() -> None:
    """Installs the import hook. Never raises: a fault of ours must not keep a user's script from starting."""
    if not os.environ.get(FOLDER_VARIABLE):
        return
    try:
        from laneway.client.torch_import import prepare

        prepare()
    except Exception as error:
        print(f"laneway: the script runs without the client: {error!r}", file=sys.stderr)


def run_next_sitecustomize() -> None:
    """Runs the sitecustomize that this file hides, if there is one, as Python would have; what it raises is its own."""
    # Only what comes behind this folder: two copies of this file on one path must not call each other for ever.
    folders = [os.path.abspath(entry) for entry in sys.path]
    here = os.path.dirname(os.path.abspath(__file__))
    behind = len(folders) - folders[::-1].index(here) if here in folders else 0
    spec = PathFinder.find_spec("sitecustomize", sys.path[behind:])
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


put_images_path_in_place()
prepare_client()
run_next_sitecustomize()
