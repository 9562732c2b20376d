"""A memory meter that also makes the memory fit: it wraps the device's own meter and runs `MemoryFit` around
each iteration."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Optional, Union

if TYPE_CHECKING:
    from laneway.client.fit.memory_fit import MemoryFit
    from laneway.client.memory.cpu_meter import CpuMeter
    from laneway.client.memory.cuda_meter import CudaMeter
    from laneway.client.session.session import Session

log = logging.getLogger("laneway.client")


class FitMeter:
    """Implements `laneway.client.memory.meter.MemoryMeter`. While there is nothing to do, it costs two calls
    an iteration."""

    def __init__(self, meter: Union[CpuMeter, CudaMeter], fit: MemoryFit) -> None:
        self._meter = meter
        self._fit = fit

    def attach(self, session: Session) -> None:
        """Sets this session's quota as the budget from the next iteration on."""
        self._meter.attach(session)
        self._fit.set_budget(session.settings.tensor_bytes, "cpu" if session.settings.simulated else "cuda")

    def begin(self) -> None:
        """Begins the iteration, the meter first, because it measures the effects of `MemoryFit`."""
        self._meter.begin()
        try:
            self._fit.begin()
        except Exception as fault:
            self._disable(fault)

    def observe_inputs(self, inputs: tuple[Any, ...]) -> None:
        """Passes the inputs to the meter, which may trace iterations with larger inputs."""
        self._meter.observe_inputs(inputs)

    def end(self) -> Optional[tuple[int, int]]:
        """Returns the meter's figures."""
        memory = self._meter.end()
        try:
            self._fit.end(memory)
        except Exception as fault:
            self._disable(fault)
        return memory

    def after_move(self, storages: list[Any]) -> Optional[int]:
        """Returns the meter's answer: only persistent memory is moved at a boundary."""
        return self._meter.after_move(storages)

    def prepare_release(self) -> None:
        """Passes the call to the meter."""
        self._meter.prepare_release()

    def free_memory(self) -> None:
        """Passes the call to the meter."""
        self._meter.free_memory()

    def forget(self) -> None:
        """Disables itself in a forked child, whose memory is separate."""
        self._fit.disable()
        forget = getattr(self._meter, "forget", None)
        if forget is not None:
            forget()

    def _disable(self, fault: Exception) -> None:
        log.warning("internal error in the client; memory is no longer reduced: %r", fault, exc_info=fault)
        self._fit.disable()
