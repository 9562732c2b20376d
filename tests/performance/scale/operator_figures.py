"""The operator's own figures: its counters, and the durations of its decisions."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tests.support.operator.operator_process import OperatorProcess

_WRITES = re.compile(r"^laneway_api_writes_total\{([^}]*)\} (\S+)$", re.MULTILINE)
_REQUESTS = re.compile(r'^laneway_api_requests_total\{code="[^"]*",method="(\w+)"\} (\S+)$', re.MULTILINE)
_PREEMPTIONS = re.compile(r"^laneway_preemptions_total\{[^}]*\} (\S+)$", re.MULTILINE)
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


def moment_of(log: str, message: str) -> float | None:
    """Return when the first line with a message was logged, in seconds since 1970; None: there is none."""
    for line in log.splitlines():
        if f'"message": "{message}"' in line:
            return datetime.fromisoformat(json.loads(line)["time"]).timestamp()
    return None


def decisions(log: str) -> Decisions:
    """Return the figures of the cycles in a part of the operator's log."""
    cycles = [json.loads(line) for line in log.splitlines() if '"message": "cycle"' in line]
    seconds, cpu_seconds = (
        sorted(float(each[name]) for each in cycles) for name in ("seconds", "cpu_seconds")
    )
    figures = [
        *(at_ratio(seconds, ratio) for ratio in (0.5, 0.99, 1.0)),
        *(at_ratio(cpu_seconds, ratio) for ratio in (0.5, 0.99)),
    ]
    return Decisions(len(cycles), *(round(1e3 * each, 1) for each in figures))


@dataclass(frozen=True, slots=True)
class Counts:
    """What the operator has done since it was started."""

    writes: Counter[str]
    """By verb and kind of object, successful or not."""

    requests: Counter[str]
    """All of them, by method (``WATCH``: watches opened)."""

    preemptions: int

    def since(self, before: Counts) -> Counts:
        """Return what was done since ``before``; no figure has become smaller."""
        return Counts(
            self.writes - before.writes,
            self.requests - before.requests,
            self.preemptions - before.preemptions,
        )


def counts(operator: OperatorProcess) -> Counts:
    """Return what a running operator has done so far."""
    return counts_in(_metrics(operator))


def counts_in(metrics: str) -> Counts:
    """Read the counters in a page of metrics."""
    writes: Counter[str] = Counter()
    for labels, value in _WRITES.findall(metrics):
        named = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        writes[f"{named['verb']} {named['resource']}"] += int(float(value))
    requests: Counter[str] = Counter()
    for method, value in _REQUESTS.findall(metrics):
        requests[method] += int(float(value))
    return Counts(writes, requests, sum(int(float(value)) for value in _PREEMPTIONS.findall(metrics)))


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


def at_ratio(ordered: Sequence[float], ratio: float) -> float:
    """Return the value below which a part of the sorted values lies; 0 where there are none."""
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, int(ratio * len(ordered)))]
