"""Becomes a program of a job, with the interposer: `interposed.py with-client|without-client LIBRARY COPY COMMAND…`.

LIBRARY is one of `tests.support.gpu.interposer`. The job's folder is known only here, in `LANEWAY_DIR`, so COPY is made here.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.support.gpu.interposer import place

client, library, copy, *command = sys.argv[1:]
os.environ["LD_PRELOAD"] = str(place(Path(library), Path(os.environ["LANEWAY_DIR"]), Path(copy)))
if client == "without-client":
    del os.environ["LANEWAY_DIR"]
os.execvp(command[0], command)
