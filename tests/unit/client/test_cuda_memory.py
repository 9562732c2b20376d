"""The meter of a real GPU, against an allocator by hand: the figures, the limit, and that CUDA is left alone until the script uses it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from laneway.client.cuda_memory import ALWAYS_MEASURED, MEASURE_SECONDS, CudaMeter
from laneway.client.welcome import Welcome

GIB = 1 << 30


class Cuda:
    """What the meter uses of `torch.cuda`."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.initialized = False
        self.waiting: list[Callable[[], None]] = []
        self.fraction = 0.0

    def is_initialized(self) -> bool:
        return self.initialized

    def _lazy_call(self, call: Callable[[], None]) -> None:
        if self.initialized:
            call()
        else:
            self.waiting.append(call)

    def initialize(self) -> None:
        self.initialized = True
        for call in self.waiting:
            call()

    def current_device(self) -> int:
        return 0

    def get_device_properties(self, device: int) -> Any:
        assert self.initialized
        return SimpleNamespace(total_memory=80 * GIB)

    def set_per_process_memory_fraction(self, fraction: float) -> None:
        self.fraction = fraction

    def reset_peak_memory_stats(self) -> None:
        self.calls.append("reset")

    def memory_allocated(self) -> int:
        return 3 * GIB

    def max_memory_allocated(self) -> int:
        return 7 * GIB

    def synchronize(self) -> None:
        self.calls.append("synchronize")

    def empty_cache(self) -> None:
        self.calls.append("empty_cache")


class Case:
    def __init__(self) -> None:
        self.cuda = Cuda()
        self.observers: list[Callable[..., None]] = []
        self.told: list[dict[str, Any]] = []
        self.now_seconds = 0.0
        private = SimpleNamespace(_cuda_attach_out_of_memory_observer=self.observers.append)
        self.meter = CudaMeter(SimpleNamespace(cuda=self.cuda, _C=private), lambda: self.now_seconds)
        self.session = SimpleNamespace(
            welcome=Welcome("s", "GPU-1", quota_bytes=21 * GIB, framework_bytes=GIB, simulated=False),
            tell=lambda kind, **fields: self.told.append({"type": kind, **fields}),
        )

    def iterate(self) -> tuple[int, int] | None:
        self.meter.begin()
        return self.meter.end()


@pytest.fixture
def case() -> Case:
    return Case()


def test_cuda_is_not_initialised_by_us(case: Case) -> None:
    case.meter.attach(case.session)  # type: ignore[arg-type]
    assert case.iterate() is None
    case.meter.settle()
    assert case.cuda.calls == []
    assert case.cuda.fraction == 0.0


def test_the_quota_is_a_fraction_of_the_gpu_from_the_moment_that_cuda_is_there(case: Case) -> None:
    case.meter.attach(case.session)  # type: ignore[arg-type]
    case.cuda.initialize()
    assert case.cuda.fraction == pytest.approx(20 / 80)


def test_measures_what_the_allocator_says(case: Case) -> None:
    case.cuda.initialize()
    case.meter.attach(case.session)  # type: ignore[arg-type]
    assert case.iterate() == (3 * GIB, 7 * GIB)


def test_measures_seldom_once_the_first_iterations_are_known(case: Case) -> None:
    case.cuda.initialize()
    case.meter.attach(case.session)  # type: ignore[arg-type]
    measured = [case.iterate() for _ in range(ALWAYS_MEASURED + 5)]
    assert measured.count(None) == 5
    case.now_seconds += MEASURE_SECONDS
    assert case.iterate() is not None


def test_gives_its_cached_memory_back_when_others_get_the_lane(case: Case) -> None:
    case.cuda.initialize()
    case.meter.settle()
    assert case.cuda.calls == ["synchronize", "empty_cache"]


def test_the_agent_hears_of_an_allocation_that_failed(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    case.cuda.initialize()
    case.meter.attach(case.session)  # type: ignore[arg-type]
    case.meter.attach(case.session)  # type: ignore[arg-type]
    (observer,) = case.observers
    observer(0, 18 * GIB, 20 * GIB, 60 * GIB)
    (overrun,) = case.told
    assert overrun["type"] == "overrun"
    assert overrun["quota_bytes"] == 20 * GIB
    assert "may hold 20.0 GiB" in overrun["message"]
    assert "may hold 20.0 GiB" in caplog.text
