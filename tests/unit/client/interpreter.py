"""The Python interpreter and the client for tests of start-up."""

from __future__ import annotations

import sys
from pathlib import Path

CLIENT = Path(__file__).parents[3] / "client" / "src"


PYTHON = getattr(sys, "_base_executable", sys.executable)
"""Not the virtual environment's interpreter, which always has this client on its path and runs no
usercustomize."""
