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
        self.current = 0
        self.devices = 1
        self.capturing = False
        self.fractions: dict[int, float] = {}
        self.reserved = 5 * GIB

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
        return self.current

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def device_count(self) -> int:
        return self.devices

    def mem_get_info(self, device: int) -> tuple[int, int]:
        assert self.initialized
        return 60 * GIB, 80 * GIB

    def set_per_process_memory_fraction(self, fraction: float, device: int) -> None:
        self.calls.append(f"limit device {device}")
        self.fractions[device] = fraction

    def reset_peak_memory_stats(self) -> None:
        self.calls.append("reset")

    def memory_allocated(self, device: int | None = None) -> int:
        return 3 * GIB

    def memory_reserved(self, device: int) -> int:
        return self.reserved

    def max_memory_allocated(self) -> int:
        return 7 * GIB

    def synchronize(self, device: int | None) -> None:
        self.calls.append("synchronize" if device is None else f"synchronize device {device}")

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
    assert case.cuda.fractions == {}


def test_the_quota_is_a_fraction_of_the_gpu_from_the_moment_that_cuda_is_there(case: Case) -> None:
    case.meter.attach(case.session)  # type: ignore[arg-type]
    case.cuda.initialize()
    assert case.cuda.fractions == {0: pytest.approx(20 / 80)}


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


def test_the_device_is_the_one_of_the_thread_that_trains(case: Case) -> None:
    case.cuda.devices = 2
    case.cuda.initialize()
    case.meter.attach(case.session)  # type: ignore[arg-type]
    assert case.cuda.fractions == {}, "a limit would make a context on a device that it may not use"
    case.cuda.current = 1
    case.iterate()
    case.iterate()
    case.cuda.current = 0  # as in the listening thread
    case.meter.settle()
    assert case.cuda.fractions == {1: pytest.approx(20 / 80)}
    assert case.cuda.calls.count("limit device 1") == 1
    assert case.cuda.calls[-2:] == ["synchronize device 1", "empty_cache"]


def test_a_new_session_may_bring_another_quota(case: Case) -> None:
    case.cuda.initialize()
    case.meter.attach(case.session)  # type: ignore[arg-type]
    case.session.welcome = Welcome("s", "GPU-1", quota_bytes=41 * GIB, framework_bytes=GIB, simulated=False)
    case.meter.attach(case.session)  # type: ignore[arg-type]
    assert case.cuda.fractions == {0: pytest.approx(40 / 80)}


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


def test_what_a_limit_of_the_script_itself_refuses_is_no_overrun(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    case.cuda.initialize()
    case.meter.attach(case.session)  # type: ignore[arg-type]
    (observer,) = case.observers
    observer(0, 4 * GIB, 5 * GIB, 60 * GIB)
    assert case.told == []
    assert "Laneway" not in caplog.text


def test_what_would_just_fit_and_is_refused_is_an_overrun(case: Case) -> None:
    case.cuda.initialize()
    case.meter.attach(case.session)  # type: ignore[arg-type]
    (observer,) = case.observers
    observer(0, 20 * GIB - case.cuda.memory_reserved(0), 20 * GIB - 1, 60 * GIB)
    assert [each["type"] for each in case.told] == ["overrun"]


def test_a_device_that_others_have_filled_is_no_overrun(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    case.cuda.initialize()
    case.meter.attach(case.session)  # type: ignore[arg-type]
    (observer,) = case.observers
    observer(0, 4 * GIB, 20 * GIB, 1 * GIB)
    assert case.told == []
    assert "GPU-1 is full" in caplog.text
    assert "1.0 GiB are free" in caplog.text


def test_an_allocator_that_knows_no_limit_does_not_keep_the_script_from_cuda(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    def attach(observer: Callable[..., None]) -> None:
        raise RuntimeError("cudaMallocAsync does not yet support attachOutOfMemoryObserver")

    case.meter._torch._C = SimpleNamespace(_cuda_attach_out_of_memory_observer=attach)
    case.meter.attach(case.session)  # type: ignore[arg-type]
    case.cuda.initialize()
    assert "is not held to the quota" in caplog.text
    assert case.iterate() == (3 * GIB, 7 * GIB)


def test_a_graph_that_is_captured_is_not_disturbed(case: Case) -> None:
    case.cuda.initialize()
    case.meter.attach(case.session)  # type: ignore[arg-type]
    case.cuda.capturing = True
    case.cuda.calls.clear()
    assert case.iterate() is None
    case.meter.settle()
    assert case.cuda.calls == []
    case.cuda.capturing = False
    assert case.iterate() is not None
    case.meter.settle()
    assert case.cuda.calls[-2:] == ["synchronize device 0", "empty_cache"]
