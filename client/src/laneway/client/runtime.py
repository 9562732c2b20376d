"""The process's one client: puts the parts together, starts them when training begins, and ends or forgets them with the process.

framework's hooks, iteration() ─▶ gate ─▶ session ◀─ link (listening thread) ◀─▶ agent
                                   │ └─▶ stop signal
                                   └─▶ memory meter ─▶ profiler
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.environment import Environment
from laneway.client.gate import IterationGate
from laneway.client.link import Link
from laneway.client.page import is_supported
from laneway.client.stop_signal import StopSignal

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.memory_meter import MemoryMeter
    from laneway.client.offload import Mover

log = logging.getLogger("laneway.client")

OTHER_FRAMEWORKS: Final = ("jax", "tensorflow", "paddle", "mxnet")
FIRST_ANSWER_SECONDS: Final = 5.0
"""How long the start of training may wait for an agent that has a socket and does not answer."""


class Client:
    """Everything of Laneway in this process. Without LANEWAY_DIR its gate is open and nothing else is there."""

    def __init__(self, environment: Optional[Environment]) -> None:
        self._environment = environment if is_supported() else None
        timeout_seconds = environment.stop_timeout_seconds if environment else 0.0
        self.stop = StopSignal(timeout_seconds, self._on_stop_signal)
        self.gate = self._new_gate()
        self.fit = environment.fit if environment else "Off"
        """What may be done where memory does not fit (`laneway.client.fit`)."""
        self.started = False
        self._joined_gang = False
        self.open_session: Callable[[], None] = self.start
        """What starts this client; a framework's hooks put in one that knows the framework."""
        self.after_block: Callable[[], None] = _nothing
        """Called at the end of an outermost `iteration()` block: the framework's hooks count again."""
        self.on_fork: Callable[[], None] = _nothing
        """Called in a forked child, last."""
        self._link: Optional[Link] = None
        self._pid = os.getpid()
        os.register_at_fork(after_in_child=self._forget)

    def start(
        self,
        framework: Optional[str] = None,
        device: str = "",
        meter: Optional[MemoryMeter] = None,
        mover: Optional[Mover] = None,
    ) -> None:
        """Opens the session and waits until the process may use the GPU; without an agent, returns at once.

        Args:
            framework: name and version, such as `torch 2.6.0`; None to look which one is loaded.
            device: `cuda`, `cpu`, or empty for unknown.
            meter: what measures the device's memory.
            mover: what moves it to the host and back.

        Raises:
            BaseException: what the script's SIGTERM handler raises, or OutOfMemoryError for memory held already.
        """
        if self.started:
            return
        self.started = True
        environment = self._environment
        if environment is None:
            return
        if meter is not None:
            self.gate.meter = meter
        self.gate.offload.mover = mover
        self.stop.before_delivery = self.gate.offload.end
        name = _loaded_framework() if framework is None else framework
        introduction = {"framework": name, "device": device, "gpu": environment.gpu}

        def hello() -> dict[str, Any]:
            gate = self.gate
            return {
                **introduction,
                "holds_turn": gate.holds_turn,
                "can": gate.offload.abilities,
                "offloaded": gate.offload.away,
            }

        self._link = Link(
            environment.socket_path, hello, self.gate.attach, self.gate.detach, self.stop.patience
        )
        atexit.register(self.finish)
        self._link.start(FIRST_ANSWER_SECONDS)
        # Memory may be used once the agent has granted a turn: one that is given back at once, if others wait.
        self.gate.begin()
        self.gate.end(trained=False)

    def join_gang(self) -> None:
        """Inside the first iteration: from here on the ranks of torch.distributed, if there are several, stop at the same boundary."""
        if self._joined_gang:
            return
        self._joined_gang = True
        from laneway.client.board import torch_board
        from laneway.client.common_boundary import CommonBoundary

        board, stop, gate = torch_board(), self.stop, self.gate
        if board is None:
            return
        stop.iterations = lambda: gate.iterations
        stop.gang = CommonBoundary(
            board, "stop", lambda: stop.requested and not stop.watched, stop.seconds_left, gate.iterations + 1
        )

    def give_up(self, fault: BaseException) -> None:
        """After a fault of our own: lets the script go on as if nothing were there."""
        log.warning("a fault in the client, the script goes on without turns: %r", fault, exc_info=fault)
        link, self._link = self._link, None
        if link is not None:
            link.stop()
        self.gate.open_for_good()

    def _new_gate(self) -> IterationGate:
        environment = self._environment
        timeout_seconds = environment.agent_timeout_seconds if environment else 0.0
        return IterationGate(self.stop, timeout_seconds, has_agent=environment is not None)

    def _on_stop_signal(self) -> None:
        self.gate.interrupt()
        if self._link is not None:
            self._link.wake()

    def finish(self) -> None:
        """Says goodbye, if there is anybody; called when the process ends."""
        if self._link is not None and os.getpid() == self._pid:
            self.gate.progress.finish(self.gate.session)
            self._link.stop()

    def _forget(self) -> None:
        """In a forked child: it is another process, without the thread, and the session is its parent's."""
        self.stop.restore()
        if self._link is not None:
            self._link.forget()
            self._link = None
        forget_meter = getattr(self.gate.meter, "forget", _nothing)
        forget_meter()
        timeout_seconds = self._environment.stop_timeout_seconds if self._environment else 0.0
        self.stop = StopSignal(timeout_seconds, self._on_stop_signal)
        self.gate = self._new_gate()
        self.started = False
        self._joined_gang = False
        self._pid = os.getpid()
        atexit.unregister(self.finish)
        self.on_fork()


_client: Optional[Client] = None


def client() -> Client:
    """The process's client, made at the first call."""
    global _client  # noqa: PLW0603 - a process has one session, so one client
    if _client is None:
        _client = Client(Environment.read())
    return _client


def is_our_fault(raised: BaseException) -> bool:
    """Whether an exception out of the gate is a fault of the client, and not meant for the script."""
    if not isinstance(raised, Exception) or _client is None:
        return False
    return raised is not _client.stop.raised and type(raised).__name__ != "OutOfMemoryError"


def _loaded_framework() -> str:
    for name in OTHER_FRAMEWORKS:
        module = sys.modules.get(name)
        if module is not None:
            return f"{name} {getattr(module, '__version__', '')}".strip()
    return ""


def _nothing(*_: Any) -> None:
    return
