"""The operator's own figures: its counters, and the durations of its decisions."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.operator.operator_process import OperatorProcess

_WRITES = re.compile(r"^laneway_api_writes_total\{([^}]*)\} (\S+)$", re.MULTILINE)
_REQUESTS = re.compile(r'^laneway_api_requests_total\{method="(\w+)"\} (\S+)$', re.MULTILINE)
_ANSWERS_WITHIN_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Decisions:
    """Durations of cycles, from reading the cache to the list of writes, in milliseconds."""

    number: int
    p50_milliseconds: float
    p99_milliseconds: float
    largest_milliseconds: float
    cpu_p50_milliseconds: float
    cpu_p99_milliseconds: float
    """CPU time only: the duration of a cycle on an idle machine."""


def decisions(log: str) -> Decisions:
    """Return the figures of the cycles in a part of the operator's log."""
    cycles = [json.loads(line) for line in log.splitlines() if '"message": "cycle"' in line]
    seconds, cpu_seconds = (
        sorted(float(each[name]) for each in cycles) for name in ("seconds", "cpu_seconds")
    )
    figures = [
        *(_at(seconds, ratio) for ratio in (0.5, 0.99, 1.0)),
        *(_at(cpu_seconds, ratio) for ratio in (0.5, 0.99)),
    ]
    return Decisions(len(cycles), *(round(1e3 * each, 1) for each in figures))


def api_counts(operator: OperatorProcess) -> tuple[Counter[str], Counter[str]]:
    """Return the number of the operator's writes by verb and kind of object, successful or not, and the
    number of all its requests by method (``WATCH``: watches opened)."""
    text = _metrics(operator)
    writes: Counter[str] = Counter()
    for labels, value in _WRITES.findall(text):
        named = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        writes[f"{named['verb']} {named['resource']}"] += int(float(value))
    return writes, Counter({method: int(float(value)) for method, value in _REQUESTS.findall(text)})


def _metrics(operator: OperatorProcess) -> str:
    """On a machine that is busy with other work, an operator that has much to do may not answer at once."""
    deadline = time.monotonic() + _ANSWERS_WITHIN_SECONDS
    while True:
        try:
            return operator.get("/metrics")
        except OSError:
            ended = operator.process is None or operator.process.poll() is not None
            if ended or time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _at(ordered: Sequence[float], ratio: float) -> float:
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, int(ratio * len(ordered)))]
