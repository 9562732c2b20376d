"""Translates NVML's errors into the agent's.

Any call may fail on some GPU in its own way. Optional features, which old or virtual GPUs or MIG may lack,
are queried with :func:`supported`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pynvml
from laneway.node_agent.gpus.protocol import DriverUnavailableError, GPUError, GPULostError

Result = TypeVar("Result")

_UNAVAILABLE = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
_LOST = frozenset(
    {pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED, pynvml.NVML_ERROR_GPU_NOT_FOUND}
)
_UNSUPPORTED = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    }
)
_HINTS = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 is not in the container; run it with NVIDIA's runtime class, "
    "or set gpuSource: simulated",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded on this node",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the library and the loaded driver differ; the node needs a reboot",
    pynvml.NVML_ERROR_NO_PERMISSION: "the agent has no permission; run it as root",
}


def supported(call: Callable[[], Result]) -> Result | None:
    """Return NVML's answer; None if the GPU or the driver does not support the call."""
    try:
        return call()
    except pynvml.NVMLLibraryMismatchError:
        return None  # an older library lacks the call
    except pynvml.NVMLError as error:
        if error.value in _UNSUPPORTED:
            return None
        raise


@contextmanager
def translated_errors(what: str) -> Iterator[None]:
    """Translate NVML's errors into the agent's.

    Raises:
        GPUError: NVML failed; the text says what was requested.
    """
    try:
        yield
    except pynvml.NVMLError as error:
        hint = _HINTS.get(error.value)
        text = f"NVML failed to return {what}: {error}{f' ({hint})' if hint else ''}"
        if error.value in _UNAVAILABLE:
            raise DriverUnavailableError(text) from error
        if error.value in _LOST:
            raise GPULostError(text) from error
        raise GPUError(text) from error
