"""One agent for all tests, with one lane, and a training without Laneway to compare with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.gpu.readiness import what_is_missing
from tests.support.gpu.interposer import why_no_interposer
from tests.support.gpu.workstation import Worker, Workstation


@pytest.fixture(scope="session")
def device() -> str:
    """`cuda`, or `cpu` for a simulated GPU."""
    chosen = os.environ.get("LANEWAY_TEST_DEVICE", "cuda")
    missing = what_is_missing(chosen)
    if missing:
        pytest.skip(missing)
    return chosen


@pytest.fixture(scope="session")
def workstation(device: str) -> Iterator[Workstation]:
    """Jobs take turns in one lane; a job over its quota is stopped after a second."""
    with Workstation(
        device,
        lanes={"maxPerGpu": 1, "frameworkMebibytes": 800 if device == "cuda" else 0},
        turns={"quantumMilliseconds": 20},
        watchdog={"graceSeconds": 1, "killSeconds": 5, "tolerancePercent": 5},
    ) as made:
        yield made


@pytest.fixture(scope="session")
def undisturbed(workstation: Workstation) -> Callable[[int], dict[str, Any]]:
    """Trains a number of steps without Laneway, and returns a hash of all state."""
    workers: list[Worker] = []

    def train(steps: int) -> dict[str, Any]:
        if not workers:
            workers.append(workstation.plain("plain", *workstation.reproducible))
        workers[0].do("fresh")
        workers[0].do("train", iterations=steps)
        return workers[0].do("state")

    return train


@pytest.fixture
def launching(workstation: Workstation) -> Iterator[Callable[..., Worker]]:
    """Starts programs that launch kernels without PyTorch and without a client; ends them with the test."""
    if why := why_no_interposer():
        pytest.skip(why)
    started: list[Worker] = []

    def start(*arguments: Any, **options: Any) -> Worker:
        started.append(workstation.launching(*arguments, **options))
        return started[-1]

    yield start
    for worker in started:
        worker.end()


@pytest.fixture
def job(workstation: Workstation) -> Iterator[Callable[..., Worker]]:
    """Starts jobs; ends them with the test, so that their shares are free again."""
    started: list[Worker] = []

    def start(*arguments: Any, **options: Any) -> Worker:
        started.append(workstation.job(*arguments, **options))
        return started[-1]

    yield start
    for worker in started:
        worker.end()
