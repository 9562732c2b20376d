"""A lock between processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hack.cluster.cache import exclusive

WAITS = """
import sys
from pathlib import Path
from hack.cluster.cache import exclusive
with exclusive(Path(sys.argv[1])):
    print("held")
"""


def test_a_command_that_waits_names_the_one_that_holds_the_lock(tmp_path: Path) -> None:
    lock = tmp_path / "a.lock"
    command = [sys.executable, "-c", WAITS, str(lock)]
    subprocess.run(command, check=True, capture_output=True)  # its pid must not stay
    with exclusive(lock):
        waits = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert waits.stderr is not None
        assert (
            f"waiting for another command (pid {os.getpid()}), which holds {lock}" in waits.stderr.readline()
        )
    out, _ = waits.communicate(timeout=60)
    assert out == "held\n"
