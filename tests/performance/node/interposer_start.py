"""What the memory interposer adds to the start of a program that uses no CUDA.

    python -m tests.performance.node.interposer_start -o result.json

Starts with and without the library, as it is shipped, alternate. The library is in LD_PRELOAD, which the dynamic
linker treats as it does /etc/ld.so.preload.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.performance.result_file import write_measured
from tests.support.torch_runtime import REPOSITORY

STARTS = 300
PROGRAMS = {
    "a program": ["/bin/true"],
    "Python": [sys.executable, "-I", "-c", "pass"],
}
_Times = tuple[float, float]


def measure() -> dict[str, Any]:
    """Return times in milliseconds."""
    with tempfile.TemporaryDirectory(prefix="lw-") as folder:
        subprocess.run(
            ["sh", str(REPOSITORY / "node_agent/interposer/build.sh"), folder],
            env={**os.environ, "PYTHON": sys.executable},
            check=True,
        )
        library = str(Path(folder) / "liblaneway-interposer.so")
        return {
            "starts": STARTS,
            "programs": [
                {"program": name, **_compared(command, library)} for name, command in PROGRAMS.items()
            ],
        }


def _compared(command: Sequence[str], library: str) -> dict[str, Any]:
    _start_ms(command, {"LD_PRELOAD": library})  # the files are in memory then
    pairs = [(_start_ms(command, {}), _start_ms(command, {"LD_PRELOAD": library})) for _ in range(STARTS)]
    return {
        "without": _medians([without for without, _ in pairs]),
        "with": _medians([with_it for _, with_it in pairs]),
        "added": _medians([(b[0] - a[0], b[1] - a[1]) for a, b in pairs]),
    }


def _medians(times: Sequence[_Times]) -> dict[str, float]:
    wall, processor = zip(*times, strict=True)
    return {
        "wall_ms": round(statistics.median(wall), 3),
        "processor_ms": round(statistics.median(processor), 3),
    }


def _start_ms(command: Sequence[str], variables: dict[str, str]) -> _Times:
    """Return the time from a program's start to its end, and its CPU time."""
    began = time.perf_counter()
    pid = os.posix_spawn(command[0], list(command), {"PATH": os.environ["PATH"], **variables})
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - began
    assert status == 0, f"{command}: status {status}"
    return 1000 * wall, 1000 * (usage.ru_utime + usage.ru_stime)


if __name__ == "__main__":
    write_measured(measure)
