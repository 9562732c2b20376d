"""Reads a GPU's own error state from NVML: uncorrected ECC errors, bad memory, and the requested recovery."""

from __future__ import annotations

from typing import Any, Final

import pynvml
from laneway.node_agent.gpus.nvml_calls import supported
from laneway.node_agent.gpus.protocol import GPUErrors, Recovery

_RECOVERY: Final = {
    pynvml.NVML_GPU_RECOVERY_ACTION_NONE: Recovery.NONE,
    pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET: Recovery.RESET,
    pynvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT: Recovery.REBOOT,
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_P2P: Recovery.DRAIN,
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET: Recovery.RESET,
    pynvml.NVML_GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN: Recovery.DRAIN,
    pynvml.NVML_GPU_RECOVERY_ACTION_BUS_RESET: Recovery.RESET,
    pynvml.NVML_GPU_RECOVERY_ACTION_SYSTEM_REBOOT: Recovery.REBOOT,
}


def read_errors(handle: Any) -> GPUErrors:
    """Read a GPU's errors.

    Raises:
        pynvml.NVMLError: it does not answer correctly.
    """
    uncorrected = supported(
        lambda: pynvml.nvmlDeviceGetTotalEccErrors(
            handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
        )
    )
    # Ampere and newer remap rows; older GPUs retire pages.
    rows = supported(lambda: pynvml.nvmlDeviceGetRemappedRows(handle))
    if rows is None:
        pending = supported(lambda: pynvml.nvmlDeviceGetRetiredPagesPendingStatus(handle))
        failed = None
    else:
        _, _, pending, failed = rows
    return GPUErrors(
        uncorrected=uncorrected,
        remap_failed=None if failed is None else bool(failed),
        remap_pending=None if pending is None else bool(pending),
        recovery=_recovery(handle),
    )


def _recovery(handle: Any) -> Recovery | None:
    """Return the recovery that the driver requests; drivers before R565 do not report it."""
    values = supported(
        lambda: pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    )
    if values is None or values[0].nvmlReturn != pynvml.NVML_SUCCESS:
        return None
    return _RECOVERY.get(values[0].value.uiVal)
