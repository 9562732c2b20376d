"""What the operator says of itself: its counters, and how long its decisions took."""

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
    """How long cycles took, from the look at the cache to the statements, in milliseconds."""

    number: int
    p50_milliseconds: float
    p99_milliseconds: float
    largest_milliseconds: float
    cpu_p50_milliseconds: float
    cpu_p99_milliseconds: float
    """Of the processor alone: what a cycle takes where the operator need not wait for its turn on it."""


def decisions(log: str) -> Decisions:
    """Return the figures of the cycles that a part of the operator's log tells of."""
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
    """Return how often the operator has written, by verb and kind of object, whatever came of it; and how many requests it has sent in all,
    reads too, by method (``WATCH``: watches opened)."""
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
