"""The fraction of a GPU's memory that JAX reserves: the container's default, and the script's own."""

from __future__ import annotations

import os


def prefer_scripts_fraction() -> None:
    """Removes the container's default if the script's image or pod sets the variable's newer name: JAX
    accepts only one of them."""
    if os.environ.get("XLA_CLIENT_MEM_FRACTION"):
        os.environ.pop("XLA_PYTHON_CLIENT_MEM_FRACTION", None)
