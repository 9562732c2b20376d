"""Writes `pod-requests.json`: what the node's pods request that are no worker of a job.

The operator watches the workers itself. A watch of all pods of the cluster would cost it much, and the plugin
sees its node's pods anyway.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from laneway.api.other_pods import OtherPods
from laneway.api.pod_requests import quantities, total
from laneway.device_plugin.node_pods import NodePods

_log = logging.getLogger(__name__)

_SETTLE_SECONDS = 0.2
"""From an event to the sum, because events come in bursts."""


class OtherPodsFile:
    """Keeps the file in step with the node's pods, once they are known."""

    def __init__(self, path: Path, pods: NodePods) -> None:
        self._path = path
        self._pods = pods
        self._triggered = asyncio.Event()
        self._written: OtherPods | None = None

    def trigger(self) -> None:
        """Request a sum soon."""
        self._triggered.set()

    async def run(self) -> None:
        """Write after each trigger that changes the sum, until cancelled."""
        while True:
            await self._triggered.wait()
            await asyncio.sleep(_SETTLE_SECONDS)
            self._triggered.clear()
            self.write()

    def write(self) -> None:
        """Write the sum, if the pods are known and it differs from what was written last."""
        if not self._pods.synced:
            return
        others = [pod.host_requests for pod in self._pods.pods.values() if not pod.is_worker]
        record = OtherPods(requests=quantities(total(others)))
        if record == self._written:
            return
        scratch = self._path.with_name(f".{self._path.name}.new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            scratch.write_text(record.model_dump_json())
            scratch.chmod(0o644)
            scratch.replace(self._path)
        except OSError as error:
            _log.error("cannot write what other pods request path=%s error=%r", self._path, str(error))
            return
        self._written = record
