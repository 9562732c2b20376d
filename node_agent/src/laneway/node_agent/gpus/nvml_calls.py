"""How NVML's calls fail, in the agent's terms.

Each of them may fail in its own way on some GPU, so what an older GPU, a virtual one or MIG need not support is asked for with
:func:`supported`.
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
    pynvml.NVML_ERROR_NO_PERMISSION: "the agent may not ask that; it runs as root",
}


def supported(ask: Callable[[], Result]) -> Result | None:
    """Return what NVML answers; None where the GPU, or the driver, does not have it."""
    try:
        return ask()
    except pynvml.NVMLLibraryMismatchError:
        return None  # an older library does not have the call at all
    except pynvml.NVMLError as error:
        if error.value in _UNSUPPORTED:
            return None
        raise


@contextmanager
def asking(what: str) -> Iterator[None]:
    """Turn NVML's errors into the agent's.

    Raises:
        GPUError: NVML failed; says what it was asked for.
    """
    try:
        yield
    except pynvml.NVMLError as error:
        hint = _HINTS.get(error.value)
        text = f"NVML was asked for {what} and answered: {error}{f' ({hint})' if hint else ''}"
        if error.value in _UNAVAILABLE:
            raise DriverUnavailableError(text) from error
        if error.value in _LOST:
            raise GPULostError(text) from error
        raise GPUError(text) from error
