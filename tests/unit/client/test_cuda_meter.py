"""The meter of a real GPU with a fake allocator: its figures and limit, and that CUDA is untouched until the
script uses it."""

from __future__ import annotations

import ctypes
import logging
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from laneway.client.memory.cuda_meter import ALWAYS_MEASURED, MEASURE_SECONDS, CudaMeter
from laneway.client.session.settings import SessionSettings

GIB = 1 << 30
PYTORCHS_TEXT = (
    "CUDA out of memory. Tried to allocate 18.00 GiB. GPU 0 has a total capacity of 80.00 GiB of which 60.00 GiB is free. "
    "20.00 GiB allowed; See documentation for Memory Management"
)
OVERRUN = (
    "Laneway: out of GPU memory: this process may hold 20.0 GiB of GPU-1, the quota of its share. "
    "It holds 5.0 GiB, and the script asked for 18.0 GiB more; at most 15.0 GiB would have fitted. "
    "Ask for a larger share (spec.gpus; 23.0 GiB are needed at this point), or use a smaller batch."
)


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

    def memory_reserved(self, device: int) -> int:
        return self.reserved

    def synchronize(self, device: int | None) -> None:
        self.calls.append("synchronize" if device is None else f"synchronize device {device}")

    def empty_cache(self) -> None:
        self.calls.append("empty_cache")


def allocator_stats(device: int) -> dict[str, Any]:
    """What PyTorch's allocator says while each iteration reaches the same peak."""
    return {"allocated_bytes": {"all": {"current": 3 * GIB, "peak": 7 * GIB}}}


class Case:
    def __init__(self) -> None:
        self.cuda = Cuda()
        self.observers: list[Callable[..., None]] = []
        self.messages: list[dict[str, Any]] = []
        self.now_seconds = 0.0
        private = SimpleNamespace(
            _cuda_attach_out_of_memory_observer=self.observers.append,
            _cuda_memoryStats=allocator_stats,
            _cuda_resetPeakMemoryStats=lambda device: None,
        )
        # As PyTorch creates it: a class without Python code.
        self.error: type[RuntimeError] = type("OutOfMemoryError", (RuntimeError,), {})
        torch = SimpleNamespace(cuda=self.cuda, _C=private, OutOfMemoryError=self.error)
        self.meter = CudaMeter(torch, lambda: self.now_seconds)
        self.session = SimpleNamespace(
            settings=SessionSettings(
                "s", "GPU-1", quota_bytes=21 * GIB, framework_bytes=GIB, simulated=False
            ),
            send_message=lambda kind, **fields: self.messages.append({"type": kind, **fields}),
        )

    def train(self) -> None:
        """Uses CUDA in a session, as a script does."""
        self.cuda.initialize()
        self.meter.attach(self.session)  # type: ignore[arg-type]

    def refuse(self, wanted_bytes: int, allowed_bytes: int, free_bytes: int) -> RuntimeError:
        """Notifies the allocator's observers and raises its error."""
        for observer in self.observers:
            observer(0, wanted_bytes, allowed_bytes, free_bytes)
        return self.raised(PYTORCHS_TEXT)

    def raised(self, text: str) -> RuntimeError:
        """Returns an error as C++ raises it: from the class and a text."""
        with pytest.raises(self.error) as caught:
            ctypes.pythonapi.PyErr_SetString(ctypes.py_object(self.error), text.encode())
        return caught.value

    def iterate(self) -> tuple[int, int] | None:
        self.meter.begin()
        return self.meter.end()


@pytest.fixture
def case() -> Case:
    return Case()


def test_the_meter_does_not_initialise_cuda(case: Case) -> None:
    case.meter.attach(case.session)  # type: ignore[arg-type]
    assert case.iterate() is None
    case.meter.prepare_release()
    case.meter.free_memory()
    assert case.cuda.calls == []
    assert case.cuda.fractions == {}


def test_the_quota_is_set_as_a_fraction_once_cuda_is_initialised(case: Case) -> None:
    case.meter.attach(case.session)  # type: ignore[arg-type]
    case.cuda.initialize()
    assert case.cuda.fractions == {0: pytest.approx(20 / 80)}


def test_reports_the_allocators_figures(case: Case) -> None:
    case.cuda.initialize()
    case.meter.attach(case.session)  # type: ignore[arg-type]
    assert case.iterate() == (3 * GIB, 7 * GIB)


def test_samples_after_the_first_iterations(case: Case) -> None:
    case.cuda.initialize()
    case.meter.attach(case.session)  # type: ignore[arg-type]
    measured = [case.iterate() for _ in range(ALWAYS_MEASURED + 5)]
    assert measured.count(None) == 5
    case.now_seconds += MEASURE_SECONDS
    assert case.iterate() is not None


def test_frees_cached_memory_before_others_get_the_lane(case: Case) -> None:
    case.cuda.initialize()
    case.meter.prepare_release()
    case.meter.free_memory()
    assert case.cuda.calls == ["synchronize", "empty_cache"]


def test_uses_the_training_threads_device(case: Case) -> None:
    case.cuda.devices = 2
    case.cuda.initialize()
    case.meter.attach(case.session)  # type: ignore[arg-type]
    assert case.cuda.fractions == {}, "a limit would make a context on a device that it may not use"
    case.cuda.current = 1
    case.iterate()
    case.iterate()
    case.cuda.current = 0  # as in the listening thread
    case.meter.prepare_release()
    case.meter.free_memory()
    assert case.cuda.fractions == {1: pytest.approx(20 / 80)}
    assert case.cuda.calls.count("limit device 1") == 1
    assert case.cuda.calls[-2:] == ["synchronize device 1", "empty_cache"]


def test_a_new_session_may_bring_another_quota(case: Case) -> None:
    case.cuda.initialize()
    case.meter.attach(case.session)  # type: ignore[arg-type]
    case.session.settings = SessionSettings(
        "s", "GPU-1", quota_bytes=41 * GIB, framework_bytes=GIB, simulated=False
    )
    case.meter.attach(case.session)  # type: ignore[arg-type]
    assert case.cuda.fractions == {0: pytest.approx(40 / 80)}


def test_the_agent_is_told_of_a_failed_allocation(case: Case) -> None:
    case.train()
    case.meter.attach(case.session)  # type: ignore[arg-type]
    assert len(case.observers) == 1, "a second session brings no second one"
    case.refuse(18 * GIB, 20 * GIB, 60 * GIB)
    assert case.messages == [
        {"type": "overrun", "used_bytes": 23 * GIB, "quota_bytes": 20 * GIB, "message": OVERRUN}
    ]


def test_pytorchs_own_error_names_the_quota_the_use_and_what_would_have_fitted(case: Case) -> None:
    case.train()
    error = case.refuse(18 * GIB, 20 * GIB, 60 * GIB)
    assert type(error) is case.error
    assert error.args == (f"{PYTORCHS_TEXT} {OVERRUN}",), "one argument, as libraries expect it"
    assert str(error) == f"{PYTORCHS_TEXT} {OVERRUN}"


def test_the_text_is_on_stderr_whatever_the_scripts_logging(
    case: Case, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    case.train()
    caplog.set_level(logging.CRITICAL + 1, "laneway.client")
    case.refuse(18 * GIB, 20 * GIB, 60 * GIB)
    assert capsys.readouterr().err == OVERRUN + "\n"


def test_a_script_without_stderr_still_gets_the_error(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(text: str) -> None:
        raise BrokenPipeError

    case.train()
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=write))
    assert OVERRUN in str(case.refuse(18 * GIB, 20 * GIB, 60 * GIB))


def test_each_refusal_appears_in_one_error(case: Case) -> None:
    case.train()
    error = case.refuse(18 * GIB, 20 * GIB, 60 * GIB)
    assert str(case.raised(PYTORCHS_TEXT)) == PYTORCHS_TEXT
    assert type(error)(*error.args).args == error.args, "a copy, as between processes, says it once"


def test_an_error_of_the_script_itself_is_unchanged(case: Case) -> None:
    case.train()
    (observer,) = case.observers
    observer(0, 18 * GIB, 20 * GIB, 60 * GIB)
    assert case.error().args == ()
    assert case.error("out of patience", 3).args == ("out of patience", 3)
    assert str(case.raised("out of patience")) == "out of patience"
    assert OVERRUN in str(case.raised(PYTORCHS_TEXT)), "the text was kept for the allocator's error"


def test_a_refusal_by_the_scripts_own_limit_is_no_overrun(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    case.train()
    (observer,) = case.observers
    observer(
        0, 18 * GIB, 20 * GIB, 60 * GIB
    )  # PyTorch has caught this error itself, as cuDNN's algorithm search does
    case.messages.clear()
    capsys.readouterr()
    assert str(case.refuse(4 * GIB, 5 * GIB, 60 * GIB)) == PYTORCHS_TEXT
    assert case.messages == []
    assert capsys.readouterr().err == ""


def test_a_refused_exact_fit_is_an_overrun(case: Case) -> None:
    case.train()
    case.refuse(20 * GIB - case.cuda.memory_reserved(0), 20 * GIB - 1, 60 * GIB)
    assert [each["type"] for each in case.messages] == ["overrun"]


def test_a_device_filled_by_others_is_reported_as_such(
    case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    case.train()
    error = case.refuse(4 * GIB, 20 * GIB, 1 * GIB)
    (message,) = case.messages
    assert (message["type"], message["device_full"]) == ("overrun", True)
    assert "GPU-1 is full" in message["message"]
    for text in (str(error), capsys.readouterr().err):
        assert "GPU-1 is full" in text
        assert "1.0 GiB are free" in text


def test_an_allocator_without_limits_does_not_keep_the_script_from_cuda(
    case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    def attach(observer: Callable[..., None]) -> None:
        raise RuntimeError("cudaMallocAsync does not yet support attachOutOfMemoryObserver")

    case.meter._torch._C._cuda_attach_out_of_memory_observer = attach
    case.meter.attach(case.session)  # type: ignore[arg-type]
    case.cuda.initialize()
    assert "cannot limit PyTorch's allocator" in caplog.text
    assert case.iterate() == (3 * GIB, 7 * GIB)


def test_a_graph_capture_is_not_disturbed(case: Case) -> None:
    case.cuda.initialize()
    case.meter.attach(case.session)  # type: ignore[arg-type]
    case.cuda.capturing = True
    case.cuda.calls.clear()
    assert case.iterate() is None
    case.meter.prepare_release()
    case.meter.free_memory()
    assert case.cuda.calls == []
    case.cuda.capturing = False
    assert case.iterate() is not None
    case.meter.prepare_release()
    case.meter.free_memory()
    assert case.cuda.calls[-2:] == ["synchronize device 0", "empty_cache"]
