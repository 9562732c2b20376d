"""How long others wait for a turn, and for an answer of the agent's port, while an HTTP client attacks that port.

    python -m tests.performance.node.http_attacks -o http-attacks.json

Runs and interleaves like `attacks.py`. One more client, with an address of its own, scrapes `/metrics` all the time, as
Prometheus does more rarely.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.performance.node.attacks import PROGRAMS, ROUNDS, SECONDS, Found, in_containers, interleaved
from tests.performance.node.crowd import Crowd, admit, node_with
from tests.performance.result_file import write_measured
from tests.support.node_agent.node import Node, PeerProcess

ADDRESSES = 8
ATTACKS = ("slow_loris", "many", "scrapes", "long_requests")
SCRAPE_SECONDS = 0.5


@dataclass(slots=True)
class Scraper:
    """Scrapes on a thread of its own until it is stopped."""

    node: Node
    scrapes: list[tuple[int, int]] = field(default_factory=list)
    """When each began and ended (CLOCK_MONOTONIC)."""

    _stopped: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Scrape at regular intervals, and repeat a scrape that fails."""
        while not self._stopped.is_set():
            began_ns = time.monotonic_ns()
            while not self._stopped.is_set():
                try:
                    self.node.get("/metrics")
                except OSError:
                    continue
                self.scrapes.append((began_ns, time.monotonic_ns()))
                break
            self._stopped.wait(SCRAPE_SECONDS)

    def stop(self) -> None:
        self._stopped.set()

    def between(self, spans_ns: Sequence[tuple[int, int]]) -> dict[str, float]:
        """Return how long those took that began in one of these spans."""
        took_ms = [
            (ended_ns - began_ns) / 1e6
            for began_ns, ended_ns in self.scrapes
            if any(from_ns <= began_ns < until_ns for from_ns, until_ns in spans_ns)
        ]
        return {
            "count": len(took_ms),
            "p50_ms": round(statistics.median(took_ms), 1),
            "max_ms": round(max(took_ms), 1),
        }


def measure() -> dict[str, Any]:
    """Return for each attack the hand-offs and scrapes of others, with and without it."""
    with node_with(gpus=2, lanes=1, quantumMilliseconds=1) as node:
        crowd = admit(node, 2, 0, "victim")
        crowd.open_sessions()
        found = [_attack(crowd, attack) for attack in ATTACKS]
    return {
        "addresses": ADDRESSES,
        "scrape_seconds": SCRAPE_SECONDS,
        "seconds_under_attack": ROUNDS * SECONDS,
        "attacks": found,
    }


def _attack(crowd: Crowd, attack: str) -> dict[str, Any]:
    def strike(_: Sequence[PeerProcess]) -> int:
        program = ["chrt", "--idle", "0", sys.executable, str(PROGRAMS / "http_attacker.py")]
        command = [*program, str(crowd.node.port), attack, str(ADDRESSES), str(SECONDS)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        answer = json.loads(done.stdout.splitlines()[-1])
        return max(int(answer["connected"]), int(answer["answered"]))

    with _scraping(crowd.node) as scraper:
        found: Found = interleaved(
            crowd, attack, lambda: in_containers(crowd.node, attack, 1, containers=1), strike
        )
    return {
        **found.shown(),
        "scrapes_usual": scraper.between([(came, began) for came, began, _ in found.struck_ns]),
        "scrapes_under_attack": scraper.between([(began, ended) for _, began, ended in found.struck_ns]),
    }


@contextmanager
def _scraping(node: Node) -> Iterator[Scraper]:
    scraper = Scraper(node)
    thread = threading.Thread(target=scraper.run)
    thread.start()
    try:
        yield scraper
    finally:
        scraper.stop()
        thread.join()


if __name__ == "__main__":
    write_measured(measure)
