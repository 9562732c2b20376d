"""Throughputs that Gavel measured (OSDI'20): ``*_throughputs.json`` of https://github.com/stanford-futuredata/gavel.

By GPU type (``v100``; ``v100_unconsolidated`` across nodes), then by job type and number of GPUs: iterations per second alone
(``null``), and of both jobs of a pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from laneway.simulator.input_file import InputError, read_json

ALONE = "null"

Throughputs = Mapping[str, Mapping[str, Mapping[str, object]]]
"""By GPU type, job type and partner; iterations per second: a number alone, a pair of numbers with a partner."""


def read_throughputs(path: Path) -> Throughputs:
    """Return the content of a file of throughputs.

    Raises:
        InputError: the file cannot be read, or has another form.
    """
    throughputs = read_json(path, "throughputs")
    if not isinstance(throughputs, dict) or not all(
        isinstance(jobs, dict) and all(isinstance(each, dict) for each in jobs.values())
        for jobs in throughputs.values()
    ):
        raise InputError(
            f'{path} is not a file of throughputs: write {{"v100": {{"(\'<job type>\', <GPUs>)": {{"null": <steps per second>}}}}}}'
        )
    return throughputs
