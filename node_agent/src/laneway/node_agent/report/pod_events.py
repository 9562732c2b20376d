"""Events on the pods of containers: what happened to a session, where ``kubectl describe pod`` shows it.

Written from a thread of its own, in order, and dropped where the API server does not keep up: an event is a courtesy.
"""

from __future__ import annotations

import logging
import queue
import threading
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from laneway.api.container_record import ContainerRecord
from laneway.node_agent.clock import Clock
from laneway.node_agent.report.writing import EventWriter, WriteError

_log = logging.getLogger(__name__)
_COMPONENT: Final = "laneway-node-agent"
_MOST_QUEUED: Final = 200
_AGAIN_SECONDS: Final = 60.0
"""The same reason on the same pod is told once in this time: a job that loses turn after turn is one piece of news."""


@dataclass(frozen=True, slots=True)
class PodNews:
    """What happened to a pod."""

    record: ContainerRecord
    reason: str
    message: str


class PodEvents:
    """Turns news into events of type Warning."""

    def __init__(self, writer: EventWriter, node: str, clock: Clock) -> None:
        self._writer = writer
        self._node = node
        self._clock = clock
        self._queue: queue.Queue[PodNews] = queue.Queue(_MOST_QUEUED)
        self._told: dict[tuple[str, str, str], float] = {}
        self._thread = threading.Thread(target=self._run, name="pod-events", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def tell(self, news: PodNews) -> None:
        """Queue an event; called on the loop's thread, and never waits."""
        now_seconds = self._clock.monotonic()
        what = (news.record.namespace, news.record.pod, news.reason)
        if now_seconds - self._told.get(what, float("-inf")) < _AGAIN_SECONDS:
            return
        self._told = {k: v for k, v in self._told.items() if now_seconds - v < _AGAIN_SECONDS}
        self._told[what] = now_seconds
        try:
            self._queue.put_nowait(news)
        except queue.Full:
            _log.warning(
                "an event on %s/%s is dropped: %s", news.record.namespace, news.record.pod, news.message
            )

    def write(self, news: PodNews) -> None:
        """Write an event.

        Raises:
            WriteError: it could not be written.
        """
        record = news.record
        now = datetime.fromtimestamp(self._clock.realtime(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        involved = {"apiVersion": "v1", "kind": "Pod", "namespace": record.namespace, "name": record.pod}
        if record.pod_uid:
            involved["uid"] = record.pod_uid
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{record.pod}.{uuid.uuid4().hex[:16]}", "namespace": record.namespace},
            "involvedObject": involved,
            "type": "Warning",
            "reason": news.reason,
            "message": news.message[:1024],
            "source": {"component": _COMPONENT, "host": self._node},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._writer.create_event(record.namespace, event)

    def _run(self) -> None:
        while True:
            news = self._queue.get()
            try:
                self.write(news)
            except WriteError as error:
                _log.warning("an event on %s/%s is lost: %s", news.record.namespace, news.record.pod, error)
