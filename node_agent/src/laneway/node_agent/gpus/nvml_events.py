"""Reads XIDs from NVML's event sets.

A wait fails for all GPUs of a set if one of them is lost. The set is then recreated from those that answer,
and the others are retried from time to time. Events of double-bit ECC errors are omitted, because XID 48
reports the same.
"""

from __future__ import annotations

import ctypes
import logging
import time
from typing import Any

import pynvml
from laneway.node_agent.gpus.nvml_calls import supported, translated_errors
from laneway.node_agent.gpus.protocol import GPUError, XidEvent

_log = logging.getLogger(__name__)
_RETRY_WAITS = 60
"""GPUs that could not be registered are retried after this many waits."""


class XidEvents:
    """The event set of a node's GPUs. Use it from one thread only."""

    def __init__(self) -> None:
        self._set: Any = None
        self._uuids: dict[int, str] = {}
        """By the address of NVML's handle, because a lost GPU may no longer report its uuid."""

        self._waits_left: int | None = None
        """Waits until unregistered GPUs are retried; None if there are none."""

    def wait(self, timeout_seconds: float) -> tuple[XidEvent, ...]:
        """Return the next XID, or nothing if none came in time.

        Raises:
            GPUError: NVML failed; the next call recreates the set.
        """
        if self._set is None or self._waits_left == 0:
            self._make()
        if self._waits_left is not None:
            self._waits_left -= 1
        if not self._uuids:
            time.sleep(timeout_seconds)
            return ()
        try:
            with translated_errors("the next event"):
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
        with translated_errors("an event set"):
            self._set = pynvml.nvmlEventSetCreate()
            count = pynvml.nvmlDeviceGetCount()
        for index in range(count):
            try:
                self._register(index)
            except pynvml.NVMLError as error:
                _log.warning("cannot register for XIDs, will retry index=%d error=%r", index, str(error))
                self._waits_left = _RETRY_WAITS

    def _register(self, index: int) -> None:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = pynvml.nvmlDeviceGetUUID(handle)
        events = supported(lambda: pynvml.nvmlDeviceGetSupportedEventTypes(handle)) or 0
        wanted = events & pynvml.nvmlEventTypeXidCriticalError
        if not wanted:
            _log.info("GPU does not report XIDs gpu=%s", uuid)
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
                _log.warning("cannot free event set error=%r", str(error))


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
