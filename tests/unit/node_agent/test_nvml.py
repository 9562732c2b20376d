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
from laneway.node_agent.gpus.nvml_processes import read_processes
from laneway.node_agent.gpus.protocol import (
    DriverUnavailableError,
    GPUError,
    GPUErrors,
    GPULostError,
    Recovery,
    XidEvent,
)

FIRST = "GPU-11111111-0000-0000-0000-000000000000"
SECOND = "GPU-22222222-0000-0000-0000-000000000000"
GIB = 1 << 30


_SOUND = {
    "device_count": 2,
    "lost_device": -1,
    "nvlink_status": 0,
    "compute_processes": 2,
    "mps_processes": 0,
    "compute_mode": 0,
    "compute_major": 9,
    "compute_minor": 0,
    "mig_mode": 0,
    "hang_milliseconds": 0,
    "xid": 0,
    "without_events": -1,
    "without_registration": -1,
    "uncorrected_errors": 0,
    "rows_pending": 0,
    "rows_failed": 0,
    "recovery_action": 0,
}


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

    def get(self, variable: str) -> int:
        return ctypes.c_int.in_dll(self._library, variable).value


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """Build the library and give it to pynvml, which would load it by its soname: the first of that name in the process."""
    path = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    source = Path(__file__).parents[2] / "support/node_agent/fake_nvml.c"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", "-Wl,-soname,libnvidia-ml.so.1", "-o", str(path), str(source)],
        check=True,
    )
    library = ctypes.CDLL(str(path))
    before = pynvml.nvmlLib
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()
    yield Library(library)
    pynvml.nvmlLib = before
    pynvml._nvmlGetFunctionPointer_cache.clear()


@pytest.fixture
def library(loaded: Library) -> Iterator[Library]:
    yield loaded
    loaded.fail("", 0)
    for variable, value in _SOUND.items():
        loaded.set(variable, value)


def test_gpus_are_described(library: Library) -> None:
    first, second = NVML().discover()
    assert (first.uuid, first.index, first.model, first.memory_bytes) == (FIRST, 0, "NVIDIA Test 0", 79 * GIB)
    assert first.device_paths == ("/dev/nvidia4",)
    assert (first.nvlink_peers, second.nvlink_peers) == ((SECOND,), (FIRST,))
    assert not first.simulated


def test_gpus_without_nvlink_have_no_peers(library: Library) -> None:
    library.set("nvlink_status", 1)
    assert [gpu.nvlink_peers for gpu in NVML().discover()] == [(), ()]


def test_a_lost_gpu_does_not_affect_the_others(library: Library) -> None:
    library.set("lost_device", 0)
    (second,) = NVML().discover()
    assert (second.uuid, second.index, second.nvlink_peers) == (SECOND, 1, ())


def test_a_reading_has_memory_utilization_and_processes_of_both_lists(library: Library) -> None:
    reading = NVML().read(FIRST)
    assert reading.used_bytes == 5 * GIB
    assert reading.utilization_ratio == pytest.approx(0.37)
    assert reading.process_bytes == {100: 3 * GIB, 101: 0, 102: 1 << 20}


def test_processes_compute_as_the_samples_since_the_last_reading_say(library: Library) -> None:
    driver = NVML()
    assert driver.read(FIRST).process_utilization == pytest.approx({100: 0.6, 101: 0.1})
    assert driver.read(FIRST).process_utilization == {}, "no new samples: no process computed"
    assert driver.read(SECOND).process_utilization == pytest.approx({100: 0.6, 101: 0.1}), (
        "each GPU has its own"
    )


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION])
def test_a_gpu_may_not_report_which_processes_compute(library: Library, code: int) -> None:
    library.fail("nvmlDeviceGetProcessUtilization", code)
    reading = NVML().read(FIRST)
    assert reading.process_utilization is None
    assert reading.used_bytes == 5 * GIB


def test_clients_of_an_mps_server_count_as_processes(library: Library) -> None:
    library.set("mps_processes", 1)
    reading = NVML().read(FIRST)
    assert reading.process_bytes[103] == 2 * GIB
    assert reading.mps_pids == {103}


def test_the_compute_capability_is_read(library: Library) -> None:
    library.set("compute_major", 8)
    library.set("compute_minor", 6)
    assert NVML().read(FIRST).compute_capability == (8, 6)
    library.fail("nvmlDeviceGetCudaComputeCapability", pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert NVML().read(FIRST).compute_capability is None


def test_exclusive_process_mode_is_detected(library: Library) -> None:
    assert not NVML().read(FIRST).exclusive_process
    library.set("compute_mode", pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
    assert NVML().read(FIRST).exclusive_process
    library.fail("nvmlDeviceGetComputeMode", pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert not NVML().read(FIRST).exclusive_process


def test_mig_mode_is_detected(library: Library) -> None:
    assert not NVML().read(FIRST).mig
    library.set("mig_mode", pynvml.NVML_DEVICE_MIG_ENABLE)
    assert NVML().read(FIRST).mig
    library.fail("nvmlDeviceGetMigMode", pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert not NVML().read(FIRST).mig


def test_processes_are_reliable_only_if_all_are_listed_with_their_memory(
    library: Library, tmp_path: Path
) -> None:
    initial, other = tmp_path / "initial", tmp_path / "other"
    initial.symlink_to("pid:[4026531836]")
    other.symlink_to("pid:[4026532999]")
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert "the memory of process 101" in read_processes(handle, initial).hidden
    library.set("compute_processes", 1)
    assert read_processes(handle, initial).hidden == ""
    assert "hostPID: true" in read_processes(handle, other).hidden
    assert "cannot be read" in read_processes(handle, tmp_path / "none").hidden
    library.fail("nvmlDeviceGetComputeRunningProcesses_v3", pynvml.NVML_ERROR_NO_PERMISSION)
    assert read_processes(handle, initial).hidden == "NVML does not list the processes of this GPU"


@pytest.mark.parametrize(
    "function",
    [
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
    ],
)
def test_optional_features_may_be_missing(library: Library, function: str) -> None:
    library.fail(function, pynvml.NVML_ERROR_NOT_SUPPORTED)
    reading = NVML().read(FIRST)
    assert reading.used_bytes == 5 * GIB
    assert (reading.utilization_ratio is None) == (function == "nvmlDeviceGetUtilizationRates")


@pytest.mark.parametrize(
    "function", ["nvmlDeviceGetMinorNumber", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetP2PStatus"]
)
def test_a_gpu_without_optional_features_is_found(library: Library, function: str) -> None:
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
    pynvml.NVML_ERROR_NO_PERMISSION: (GPUError, "run it as root"),
}


@pytest.mark.parametrize("code", ERRORS)
def test_errors_name_the_request_and_the_answer(library: Library, code: int) -> None:
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


def test_the_numa_node_comes_from_the_kernel(library: Library, tmp_path: Path) -> None:
    handle = pynvml.nvmlDeviceGetHandleByIndex(1)
    assert nvml._numa_node(handle, tmp_path) is None
    folder = tmp_path / "0000:3c:00.0"
    folder.mkdir()
    (folder / "numa_node").write_text("1\n")
    assert nvml._numa_node(handle, tmp_path) == 1
    (folder / "numa_node").write_text("-1\n")
    assert nvml._numa_node(handle, tmp_path) is None, "the kernel's way to say that there is one node only"


def test_a_gpu_tells_of_its_errors(library: Library) -> None:
    assert NVML().read(FIRST).errors == GPUErrors(0, False, False, Recovery.NONE)
    for variable in ("uncorrected_errors", "rows_pending", "rows_failed"):
        library.set(variable, 1)
    library.set("recovery_action", pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET)
    assert NVML().read(FIRST).errors == GPUErrors(1, True, True, Recovery.RESET)


def test_an_older_gpu_reports_retired_pages(library: Library) -> None:
    library.fail("nvmlDeviceGetRemappedRows", pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert NVML().read(FIRST).errors == GPUErrors(0, None, True, Recovery.NONE)


def test_an_older_driver_reports_no_recovery_action(library: Library) -> None:
    library.set("recovery_action", -1)
    assert NVML().read(FIRST).errors.recovery is None
    library.fail("nvmlDeviceGetFieldValues", pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    assert NVML().read(FIRST).errors.recovery is None


def test_a_gpu_without_ecc_counts_no_errors(library: Library) -> None:
    library.fail("nvmlDeviceGetTotalEccErrors", pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert NVML().read(FIRST).errors.uncorrected is None


def test_an_xid_comes_with_its_gpu(library: Library) -> None:
    gpus = NVML()
    assert gpus.wait_for_xids(0.01) == ()
    library.set("xid_device", 1)
    library.set("xid", 79)
    assert gpus.wait_for_xids(5) == (XidEvent(SECOND, 79),)
    assert gpus.wait_for_xids(0.01) == ()


def test_the_gpu_of_an_xid_is_known_even_if_it_no_longer_answers(library: Library) -> None:
    gpus = NVML()
    gpus.wait_for_xids(0.001)
    library.fail("nvmlDeviceGetUUID", pynvml.NVML_ERROR_GPU_IS_LOST)
    library.set("xid_device", 0)
    library.set("xid", 79)
    assert gpus.wait_for_xids(5) == (XidEvent(FIRST, 79),)


def test_a_gpu_without_events_does_not_hide_events_of_others(library: Library) -> None:
    gpus = NVML()
    library.set("without_events", 0)
    gpus.wait_for_xids(0.001)
    assert library.get("registered") == 0b10


def test_without_any_event_support_the_wait_times_out(library: Library) -> None:
    library.fail("nvmlDeviceGetSupportedEventTypes", pynvml.NVML_ERROR_NOT_SUPPORTED)
    gpus = NVML()
    assert gpus.wait_for_xids(0.001) == ()
    assert library.get("registered") == 0


def test_a_failed_event_set_is_freed_and_recreated(library: Library) -> None:
    gpus = NVML()
    sets = library.get("event_sets")
    gpus.wait_for_xids(0.001)
    library.fail("nvmlEventSetWait_v2", pynvml.NVML_ERROR_GPU_IS_LOST)
    with pytest.raises(GPULostError, match="the next event"):
        gpus.wait_for_xids(0.001)
    assert library.get("event_sets") == sets
    library.fail("", 0)
    library.set("xid_device", 1)
    library.set("xid", 13)
    assert gpus.wait_for_xids(5) == (XidEvent(SECOND, 13),)


def test_a_gpu_that_cannot_be_registered_is_retried(library: Library) -> None:
    gpus = NVML()
    library.set("without_registration", 1)
    gpus.wait_for_xids(0)
    assert library.get("registered") == 0b01
    library.set("without_registration", -1)
    for _ in range(100):
        gpus.wait_for_xids(0)
    assert library.get("registered") == 0b11
