"""Calls with a deadline, on threads that can be abandoned: a driver in trouble may never answer."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from laneway.node_agent.answer_wait import is_answered_within
from laneway.node_agent.gpus.protocol import GPUHangError

Result = TypeVar("Result")


class DeadlineCaller(Generic[Result]):
    """One thread for calls of one kind. While a call hangs, no other is made, because each would cost
    another thread."""

    def __init__(self, name: str, deadline_seconds: float) -> None:
        self._name = name
        self._deadline_seconds = deadline_seconds
        self._work: queue.SimpleQueue[tuple[Callable[[], Result], Future[Result]]] = queue.SimpleQueue()
        self._pending: Future[Result] | None = None
        self._thread: threading.Thread | None = None

    def call(self, function: Callable[[], Result]) -> Result:
        """Call a function, and return its result or raise its error.

        Raises:
            GPUHangError: this call, or an earlier one that still runs, did not answer in time.
        """
        if self._pending is not None and not self._pending.done():
            raise GPUHangError(f"{self._name}: an earlier call has not been answered yet")
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            self._thread.start()
        answer: Future[Result] = Future()
        self._pending = answer
        self._work.put((function, answer))
        if not is_answered_within(answer, self._deadline_seconds):
            raise GPUHangError(f"{self._name}: no answer within {self._deadline_seconds:g} s")
        return answer.result()

    def _serve(self) -> None:
        while True:
            function, answer = self._work.get()
            try:
                answer.set_result(function())
            except BaseException as error:  # re-raised in the caller's thread
                answer.set_exception(error)
