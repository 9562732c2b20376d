"""What a container gets if its GPUs are at level MPS."""

from __future__ import annotations

from pathlib import Path

from laneway.api.inventory import DeviceAccess, InventoryGPU
from laneway.device_plugin.allocation import AllocationSettings, grant, response
from laneway.device_plugin.folders import Folders
from laneway.device_plugin.mps import MPSSettings, mps_settings

from tests.support.device_plugin.builders import gpu, ids, inventory

FOLDERS = Folders(mps=Path("/run/laneway/mps"))


def mps_gpu(index: int) -> InventoryGPU:
    return gpu(index, simulated=False, enforcement="MPS", memory_bytes=80 << 30, reserve_bytes=1 << 30)


def test_a_share_becomes_limits_of_memory_and_threads() -> None:
    settings = mps_settings((mps_gpu(0),), 30, FOLDERS, limit_threads=True)

    quota_mebibytes = (80 - 1) * 1024 * 30 // 100  # of 80 GiB, 1 of them reserved
    assert settings.environment == {
        "CUDA_MPS_PIPE_DIRECTORY": "/run/laneway-mps",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={quota_mebibytes}M",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "30",
    }
    assert [(mount.container_path, mount.host_path, mount.read_only) for mount in settings.mounts] == [
        ("/run/laneway-mps", "/run/laneway/mps/clients", True),
    ], "and the container's own /dev/shm"


def test_each_gpu_has_a_limit_under_the_number_that_the_container_sees() -> None:
    settings = mps_settings((mps_gpu(3), mps_gpu(5)), 100, FOLDERS, limit_threads=False)

    assert settings.environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=80896M,1=80896M"
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in settings.environment


def test_a_container_gets_nothing_unless_all_of_its_gpus_are_at_level_mps() -> None:
    watched = gpu(1, simulated=False, enforcement="Watchdog")
    assert mps_settings((mps_gpu(0), watched), 100, FOLDERS, limit_threads=True) == MPSSettings()


def test_overcommitted_shares_get_no_more_than_the_gpu() -> None:
    settings = mps_settings((mps_gpu(0),), 150, FOLDERS, limit_threads=True)
    assert settings.environment["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "100"
    assert settings.environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=80896M"


def test_allocate_hands_it_over_with_the_rest() -> None:
    node = inventory(mps_gpu(0)).model_copy(update={"devices": DeviceAccess(strategy="env")})
    granted = grant(ids(0, range(30)), node)

    with_threads = response(granted, FOLDERS, AllocationSettings())
    without = response(granted, FOLDERS, AllocationSettings(limit_threads=False))

    assert with_threads.envs["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "30"
    assert with_threads.envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"
    assert with_threads.envs["LANEWAY_DIR"] == "/run/laneway"
    assert len(with_threads.mounts) == 3
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in without.envs
