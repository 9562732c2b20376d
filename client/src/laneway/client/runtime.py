"""The client of this process: builds its components, starts them when training begins, and stops them with
the process.

    PyTorch hooks, iteration() ─▶ iteration guard ─▶ session ◀─ agent connection (listening thread) ◀─▶ agent
                                   │ └─▶ stop signal
                                   └─▶ memory meter ─▶ profiler
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.boundary.iteration_guard import IterationGuard
from laneway.client.boundary.stop_signal import StopSignal
from laneway.client.environment import Environment
from laneway.client.session.agent_connection import AgentConnection
from laneway.client.session.channel import ChannelClosedError
from laneway.client.session.handshake import NoAgentError, send_hello
from laneway.client.session.shared_page import is_supported

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.memory.meter import MemoryMeter
    from laneway.client.offload.offloader import Mover

log = logging.getLogger("laneway.client")

OTHER_FRAMEWORKS: Final = ("jax", "tensorflow", "paddle", "mxnet")
HAND_OVER: Final = "hand_over"
"""The capability to wake the next holder of a lane, and to be woken."""
FIRST_ANSWER_SECONDS: Final = 5.0
"""How long the start of training may wait for an agent that does not answer."""


class Client:
    """All of Laneway in this process. Without LANEWAY_DIR only the guard exists, and every turn is granted."""

    def __init__(self, environment: Optional[Environment]) -> None:
        self._environment = environment if is_supported() else None
        timeout_seconds = environment.stop_timeout_seconds if environment else 0.0
        self.stop = StopSignal(timeout_seconds, self._on_stop_signal)
        self.guard = self._new_guard()
        self.fit = environment.fit if environment else "Off"
        """What may be done where memory does not fit (`laneway.client.fit`)."""
        self.started = False
        self._joined_gang = False
        self.open_session: Callable[[], None] = self.start
        """Starts this client; a framework's hooks replace it by a function that knows the framework."""
        self.after_block: Callable[[], None] = _nothing
        """Called at the end of an outermost `iteration()` block, when the framework's hooks take effect
        again."""
        self.on_fork: Callable[[], None] = _nothing
        """Called last in a forked child."""
        self._agent_connection: Optional[AgentConnection] = None
        self._pid = os.getpid()
        os.register_at_fork(after_in_child=self._forget)

    def start(
        self,
        framework: Optional[str] = None,
        device: str = "",
        meter: Optional[MemoryMeter] = None,
        mover: Optional[Mover] = None,
    ) -> None:
        """Opens the session and waits until the process may use the GPU; returns at once without an agent.

        Args:
            framework: name and version, such as `torch 2.6.0`; None to detect it.
            device: `cuda`, `cpu`, or empty for unknown.
            meter: measures the device's memory.
            mover: moves that memory to the host and back.

        Raises:
            BaseException: what the script's SIGTERM handler raises, or OutOfMemoryError for memory held
                already.
        """
        if self.started:
            return
        self.started = True
        environment = self._environment
        if environment is None:
            return
        if meter is not None:
            self.guard.meter = meter
        self.guard.offload.mover = mover
        self.stop.before_delivery = self.guard.offload.end
        name = _loaded_framework() if framework is None else framework
        introduction = _introduction(environment, name, device)

        def hello() -> dict[str, Any]:
            guard = self.guard
            return {
                **introduction,
                "holds_turn": guard.holds_turn,
                "can": [*guard.offload.capabilities, HAND_OVER],
                "offloaded": guard.offload.is_offloaded,
            }

        self._agent_connection = AgentConnection(
            environment.socket_path, hello, self.guard.attach, self.guard.detach, self.stop.get_timeout
        )
        atexit.register(self.finish)
        self._agent_connection.start(FIRST_ANSWER_SECONDS)
        # Memory may be used once the agent has granted a turn, which is returned at once if others wait.
        self.guard.begin()
        self.guard.end(trained=False)

    def explain_no_turns(self, framework: str, text: str) -> None:
        """Tells the agent why this process takes no turns, where there is an agent."""
        environment = self._environment
        if environment is None:
            return
        try:
            send_hello(
                environment.socket_path, {**_introduction(environment, framework, ""), "no_turns": text}
            )
        except (NoAgentError, ChannelClosedError) as error:
            log.debug("the agent was not told why this process takes no turns: %s", error)

    def join_gang(self) -> None:
        """Makes all ranks of torch.distributed, if there are several, stop at the same boundary. Called in
        the first iteration."""
        if self._joined_gang:
            return
        self._joined_gang = True
        from laneway.client.distributed.common_boundary import CommonBoundary
        from laneway.client.distributed.rank_store import torch_rank_store

        rank_store, stop, guard = torch_rank_store(), self.stop, self.guard
        if rank_store is None:
            return
        stop.iterations = lambda: guard.iterations
        stop.gang = CommonBoundary(
            rank_store,
            "stop",
            lambda: stop.requested and not stop.is_polled,
            stop.seconds_left,
            guard.iterations + 1,
        )

    def disable(self, fault: BaseException) -> None:
        """Disables the client after an internal error; the script continues without Laneway."""
        log.warning("internal error in the client; the script runs without turns: %r", fault, exc_info=fault)
        link, self._agent_connection = self._agent_connection, None
        if link is not None:
            link.stop()
        self.guard.disable()

    def _new_guard(self) -> IterationGuard:
        environment = self._environment
        timeout_seconds = environment.agent_timeout_seconds if environment else 0.0
        return IterationGuard(self.stop, timeout_seconds, agent_expected=environment is not None)

    def _on_stop_signal(self) -> None:
        self.guard.interrupt()
        if self._agent_connection is not None:
            self._agent_connection.wake()

    def finish(self) -> None:
        """Sends the last progress report and goodbye. Called when the process ends."""
        if self._agent_connection is not None and os.getpid() == self._pid:
            self.guard.progress.flush(self.guard.session)
            self._agent_connection.stop()

    def _forget(self) -> None:
        """Resets a forked child: it has no listening thread, and the session belongs to its parent."""
        self.stop.restore_handler()
        if self._agent_connection is not None:
            self._agent_connection.forget()
            self._agent_connection = None
        forget_meter = getattr(self.guard.meter, "forget", _nothing)
        forget_meter()
        timeout_seconds = self._environment.stop_timeout_seconds if self._environment else 0.0
        self.stop = StopSignal(timeout_seconds, self._on_stop_signal)
        self.guard = self._new_guard()
        self.started = False
        self._joined_gang = False
        self._pid = os.getpid()
        atexit.unregister(self.finish)
        self.on_fork()


def _introduction(environment: Environment, framework: str, device: str) -> dict[str, Any]:
    """Returns the part of hello that never changes in a process."""
    return {
        "framework": framework,
        "device": device,
        "gpu": environment.gpu,
        "local_rank": environment.local_rank,
    }


_client: Optional[Client] = None


def client() -> Client:
    """Returns the client of this process, created at the first call."""
    global _client  # noqa: PLW0603 - a process has one session, so one client
    if _client is None:
        _client = Client(Environment.read())
    return _client


def is_internal_error(raised: BaseException) -> bool:
    """Returns whether an exception is an internal error of the client, as opposed to one meant for the
    script."""
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
