"""A memory meter that makes what it measures fit: it stands before the device's own, at the same place in each iteration."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Optional, Union

if TYPE_CHECKING:
    from laneway.client.cpu_memory import CpuMeter
    from laneway.client.cuda_memory import CudaMeter
    from laneway.client.fit.fit import Fit
    from laneway.client.session import Session

log = logging.getLogger("laneway.client")


class FitMeter:
    """See `laneway.client.memory_meter`. While nothing is to be done it costs two calls an iteration."""

    def __init__(self, meter: Union[CpuMeter, CudaMeter], fit: Fit) -> None:
        self._meter = meter
        self._fit = fit

    def attach(self, session: Session) -> None:
        """Plans keep within this session's quota from the next iteration on."""
        self._meter.attach(session)
        self._fit.limit(session.welcome.tensor_bytes, "cpu" if session.welcome.simulated else "cuda")

    def begin(self) -> None:
        """The meter first: what is done is measured by it."""
        self._meter.begin()
        try:
            self._fit.begin()
        except Exception as fault:
            self._give_up(fault)

    def take_in(self, inputs: tuple[Any, ...]) -> None:
        """The meter may want to see all of an iteration with larger inputs."""
        self._meter.take_in(inputs)

    def end(self) -> Optional[tuple[int, int]]:
        """The meter's figures."""
        memory = self._meter.end()
        try:
            self._fit.end(memory)
        except Exception as fault:
            self._give_up(fault)
        return memory

    def moved(self, storages: list[Any]) -> Optional[int]:
        """The meter's answer: only what lasts over iterations is moved at a boundary."""
        return self._meter.moved(storages)

    def settle(self) -> None:
        """Others get the lane next."""
        self._meter.settle()

    def forget(self) -> None:
        """In a forked child: it is another process's memory."""
        self._fit.abandon()
        forget = getattr(self._meter, "forget", None)
        if forget is not None:
            forget()

    def _give_up(self, fault: Exception) -> None:
        log.warning("a fault in the client, memory is no longer saved: %r", fault, exc_info=fault)
        self._fit.abandon()
