"""Python's own start-up hook: prepares the client where Laneway gave the container a share, then runs the image's own sitecustomize.

This file comes first on the path (PYTHONPATH=/opt/laneway), so it hides a sitecustomize further on; that one is run here in its
place. Without LANEWAY_DIR nothing else happens; with it, nothing but one import hook until PyTorch is imported.
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


prepare_client()
run_next_sitecustomize()
