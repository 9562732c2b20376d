"""Real GPUs through the real pynvml; only the driver's library below it is ours."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest
from laneway.node_agent.gpus import nvml
from laneway.node_agent.gpus.nvml import NVML
from laneway.node_agent.gpus.protocol import DriverUnavailableError, GPUError, GPULostError

FIRST = "GPU-11111111-0000-0000-0000-000000000000"
SECOND = "GPU-22222222-0000-0000-0000-000000000000"
GIB = 1 << 30


class Library:
    """The driver's library, as tests set it."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def fail(self, function: str, code: int) -> None:
        buffer = (ctypes.c_char * 64).in_dll(self._library, "fail_function")
        buffer.value = function.encode()
        self.set("fail_code", code)

    def set(self, variable: str, value: int) -> None:
        ctypes.c_int.in_dll(self._library, variable).value = value


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """Build the library. Once it is loaded, the loader gives it to pynvml, which asks for its soname."""
    path = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    source = Path(__file__).with_name("fake_nvml.c")
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", "-Wl,-soname,libnvidia-ml.so.1", "-o", str(path), str(source)],
        check=True,
    )
    library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    before = pynvml.nvmlLib
    pynvml.nvmlLib = None
    pynvml._nvmlGetFunctionPointer_cache.clear()
    yield Library(library)
    pynvml.nvmlLib = before
    pynvml._nvmlGetFunctionPointer_cache.clear()


@pytest.fixture
def library(loaded: Library) -> Iterator[Library]:
    yield loaded
    loaded.fail("", 0)
    for variable, value in (("device_count", 2), ("nvlink_status", 0), ("hang_milliseconds", 0)):
        loaded.set(variable, value)


def test_gpus_are_described(library: Library) -> None:
    first, second = NVML().discover()
    assert (first.uuid, first.index, first.model, first.memory_bytes) == (FIRST, 0, "NVIDIA Test 0", 80 * GIB)
    assert first.device_paths == ("/dev/nvidia4",)
    assert (first.nvlink_peers, second.nvlink_peers) == ((SECOND,), (FIRST,))
    assert not first.simulated


def test_gpus_without_nvlink_have_no_peers(library: Library) -> None:
    library.set("nvlink_status", 1)
    assert [gpu.nvlink_peers for gpu in NVML().discover()] == [(), ()]


def test_a_reading_has_memory_utilization_and_processes_of_both_lists(library: Library) -> None:
    reading = NVML().read(FIRST)
    assert reading.used_bytes == 5 * GIB
    assert reading.utilization_ratio == pytest.approx(0.37)
    assert reading.process_bytes == {100: 3 * GIB, 101: 0, 102: 1 << 20}


@pytest.mark.parametrize(
    "function",
    [
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
    ],
)
def test_what_a_gpu_need_not_support_is_left_out(library: Library, function: str) -> None:
    library.fail(function, pynvml.NVML_ERROR_NOT_SUPPORTED)
    reading = NVML().read(FIRST)
    assert reading.used_bytes == 5 * GIB
    assert (reading.utilization_ratio is None) == (function == "nvmlDeviceGetUtilizationRates")


@pytest.mark.parametrize(
    "function", ["nvmlDeviceGetMinorNumber", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetP2PStatus"]
)
def test_a_gpu_is_found_without_what_it_need_not_support(library: Library, function: str) -> None:
    library.fail(function, pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert [gpu.uuid for gpu in NVML().discover()] == [FIRST, SECOND]


ERRORS = {
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        DriverUnavailableError,
        "the NVIDIA driver is not loaded on this node",
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (DriverUnavailableError, "the node needs a reboot"),
    pynvml.NVML_ERROR_GPU_IS_LOST: (GPULostError, "GPU is lost"),
    pynvml.NVML_ERROR_RESET_REQUIRED: (GPULostError, "requires restart"),
    pynvml.NVML_ERROR_UNKNOWN: (GPUError, "Unknown Error"),
    pynvml.NVML_ERROR_NO_PERMISSION: (GPUError, "it runs as root"),
}


@pytest.mark.parametrize("code", ERRORS)
def test_errors_say_what_was_asked_and_what_came(library: Library, code: int) -> None:
    kind, wanted = ERRORS[code]
    library.fail("nvmlDeviceGetMemoryInfo_v2", code)
    with pytest.raises(kind, match=f"(?s)the memory of GPU {FIRST}.*{wanted}") as caught:
        NVML().read(FIRST)
    assert caught.type is kind


def test_a_driver_that_is_loaded_later_is_found(library: Library) -> None:
    gpus = NVML()
    library.fail("nvmlInitWithFlags", pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    with pytest.raises(DriverUnavailableError):
        gpus.discover()
    library.fail("", 0)
    assert len(gpus.discover()) == 2


def test_the_numa_node_is_that_of_the_kernel(library: Library, tmp_path: Path) -> None:
    handle = pynvml.nvmlDeviceGetHandleByIndex(1)
    assert nvml._numa_node(handle, tmp_path) is None
    folder = tmp_path / "0000:3c:00.0"
    folder.mkdir()
    (folder / "numa_node").write_text("1\n")
    assert nvml._numa_node(handle, tmp_path) == 1
    (folder / "numa_node").write_text("-1\n")
    assert nvml._numa_node(handle, tmp_path) is None, "the kernel's way to say that there is one node only"
