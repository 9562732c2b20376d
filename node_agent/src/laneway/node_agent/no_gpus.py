"""What an agent tells while its node has no GPUs: the device plugin, the cluster, and the kubelet's probes."""

from __future__ import annotations

import logging

from laneway.node_agent.agent import AgentOptions
from laneway.node_agent.inventory_file import write_no_gpus
from laneway.node_agent.report.http_server import AgentHTTPServer, Answers
from laneway.node_agent.report.metrics import process_registry
from laneway.node_agent.report.no_gpus_publisher import NoGPUsPublisher

_log = logging.getLogger(__name__)


class NoGPUs:
    """Reports until the GPUs are found, so that the node pod is ready and is not restarted for silence."""

    def __init__(self, options: AgentOptions, publisher: NoGPUsPublisher | None) -> None:
        """``publisher``: writes the GPUNode; None without a cluster."""
        self._options = options
        self._publisher = publisher
        self._http: AgentHTTPServer | None = None
        self._reason = ""

    def report(self, reason: str) -> None:
        """Tell why there are no GPUs. The first call opens the HTTP port. A reason is logged once: a node may stay without GPUs.

        Raises:
            OSError: the port is taken.
        """
        if reason != self._reason:
            _log.warning("no GPUs found, waiting for a driver reason=%r", reason)
            self._reason = reason
        try:
            write_no_gpus(self._options.folders.inventory, self._options.node, reason)
        except OSError as error:
            _log.error("cannot write the inventory error=%r", str(error))
        if self._http is None:
            answers = Answers(process_registry(), lambda: "", lambda gpu, since: iter(()), lambda details: [])
            self._http = AgentHTTPServer(self._options.address, self._options.port, answers)
            self._http.start()
            _log.info("serving without GPUs http=%s:%d", self._options.address, self._http.port)
        if self._publisher is not None:
            self._publisher.publish(reason)

    def close(self) -> None:
        """Free the HTTP port."""
        if self._http is not None:
            self._http.stop()
            self._http = None
