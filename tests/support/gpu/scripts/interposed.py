"""Becomes a program of a job with the interposer and without the Python client: `interposed.py LIBRARY COPY COMMAND…`.

LIBRARY is one of `tests.support.gpu.interposer`. The job's folder is known only here, in `LANEWAY_DIR`, so COPY is made here.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.support.gpu.interposer import place

library, copy, *command = sys.argv[1:]
directory = Path(os.environ.pop("LANEWAY_DIR"))
os.environ["LD_PRELOAD"] = str(place(Path(library), directory, Path(copy)))
os.execvp(command[0], command)
