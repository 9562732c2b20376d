"""XIDs as NVML's event sets bring them.

A wait fails for all GPUs of a set when one of them is lost, so the set is then made anew from those that answer; the others
are asked again from time to time. NVML's events of double-bit ECC errors are left out: XID 48 says the same.
"""

from __future__ import annotations

import ctypes
import logging
import time
from typing import Any

import pynvml
from laneway.node_agent.gpus.nvml_calls import asking, supported
from laneway.node_agent.gpus.protocol import GPUError, XidEvent

_log = logging.getLogger(__name__)
_RETRY_WAITS = 60
"""After so many waits, GPUs that could not be registered are tried again."""


class XidEvents:
    """The event set of a node's GPUs. Used from one thread alone."""

    def __init__(self) -> None:
        self._set: Any = None
        self._uuids: dict[int, str] = {}
        """By the address of NVML's handle, because a GPU that is lost need not tell its uuid any more."""

        self._waits_left: int | None = None
        """Until GPUs that were left out are tried again; None where none was."""

    def wait(self, timeout_seconds: float) -> tuple[XidEvent, ...]:
        """Return the next XID, or nothing when none came in time.

        Raises:
            GPUError: NVML failed; the next call makes the set anew.
        """
        if self._set is None or self._waits_left == 0:
            self._make()
        if self._waits_left is not None:
            self._waits_left -= 1
        if not self._uuids:
            time.sleep(timeout_seconds)
            return ()
        try:
            with asking("the next event"):
                return self._next(round(timeout_seconds * 1000))
        except GPUError:
            self._forget()
            raise

    def _next(self, timeout_milliseconds: int) -> tuple[XidEvent, ...]:
        try:
            event = pynvml.nvmlEventSetWait_v2(self._set, timeout_milliseconds)
        except pynvml.NVMLError as error:
            if error.value == pynvml.NVML_ERROR_TIMEOUT:
                return ()
            raise
        if event.eventType != pynvml.nvmlEventTypeXidCriticalError:
            return ()
        return (XidEvent(self._uuid_of(event.device), int(event.eventData)),)

    def _make(self) -> None:
        self._forget()
        with asking("an event set"):
            self._set = pynvml.nvmlEventSetCreate()
            count = pynvml.nvmlDeviceGetCount()
        for index in range(count):
            try:
                self._register(index)
            except pynvml.NVMLError as error:
                _log.warning("GPU %d reports no XIDs for now: %s", index, error)
                self._waits_left = _RETRY_WAITS

    def _register(self, index: int) -> None:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = pynvml.nvmlDeviceGetUUID(handle)
        events = supported(lambda: pynvml.nvmlDeviceGetSupportedEventTypes(handle)) or 0
        wanted = events & pynvml.nvmlEventTypeXidCriticalError
        if not wanted:
            _log.info("GPU %s reports no XIDs: it does not support events", uuid)
            return
        pynvml.nvmlDeviceRegisterEvents(handle, wanted, self._set)
        self._uuids[_address(handle)] = uuid

    def _uuid_of(self, handle: Any) -> str:
        known = self._uuids.get(_address(handle))
        return pynvml.nvmlDeviceGetUUID(handle) if known is None else known

    def _forget(self) -> None:
        events, self._set = self._set, None
        self._uuids = {}
        self._waits_left = None
        if events is not None:
            try:
                pynvml.nvmlEventSetFree(events)
            except pynvml.NVMLError as error:
                _log.warning("an event set could not be freed: %s", error)


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
