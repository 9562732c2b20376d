"""Keeps the device strategy in step with the node, on its own thread.

Node (API server) ──▶ container runtime, other plugins' GPUs ─┐
CDI specs, NVIDIA's toolkit, /dev ────────────────────────────┴─▶ device_access ─▶ inventory, GPUNode
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from laneway.api.inventory import DeviceAccess
from laneway.api.names import OWN_CDI_KIND
from laneway.api.node_config import NodeConfig
from laneway.node_agent.atomic_file import write_atomically
from laneway.node_agent.devices.cdi import own_spec
from laneway.node_agent.devices.detection import fingerprint, last_runtime, read_facts
from laneway.node_agent.devices.node_facts import NodeFacts
from laneway.node_agent.devices.strategy import device_access
from laneway.node_agent.gpus.protocol import GPUInfo
from laneway.node_agent.host_folders import HostFolders

_log = logging.getLogger(__name__)
_FILES_SECONDS = 5.0
_CHECKS_PER_NODE_READ = 12


class NodeUnreadError(Exception):
    """The API server did not return the Node; the text says why."""


class DeviceAccessMonitor:
    """The strategy in force, and what other device plugins offer."""

    def __init__(
        self,
        gpus: tuple[GPUInfo, ...],
        config: NodeConfig,
        folders: HostFolders,
        read_node: Callable[[], NodeFacts],
    ) -> None:
        """Decide once. The Node is read here only if no agent process has read it since the node was booted,
        so that a restart does not wait for the API server.

        Args:
            gpus: the node's GPUs.
            config: the configuration.
            folders: the node's folders.
            read_node: reads the Node; raises NodeUnreadError.
        """
        self._gpus = gpus
        self._config = config
        self._folders = folders
        self._read_node = read_node
        self._runtime = last_runtime(folders.inventory)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="device-access", daemon=True)
        self.other_offers: tuple[str, ...] | None = None
        """GPUs that other device plugins offer on this node; None while unknown."""

        if not self._runtime:
            self._look_at_node()
        self._seen = fingerprint(folders)
        self.access = self._decide()
        _log.info("device strategy=%s reason=%r", self.access.strategy, self.access.reason)

    def start(self, changed: Callable[[], None]) -> None:
        """Start following the node; ``changed`` is called on the thread."""
        self._changed = changed
        self._thread.start()

    def stop(self) -> None:
        """Stop following."""
        self._stopped.set()

    def check(self, *, node: bool) -> bool:
        """Look at the files, and at the Node if asked; return whether anything changed."""
        before = self.access, self.other_offers
        runtime = self._runtime
        if node:
            self._look_at_node()
        seen = fingerprint(self._folders)
        if seen != self._seen or runtime != self._runtime:
            self._seen = seen
            self.access = self._decide()
        if self.access != before[0]:
            _log.warning(
                "device strategy changed strategy=%s reason=%r", self.access.strategy, self.access.reason
            )
        return (self.access, self.other_offers) != before

    def _run(self) -> None:
        count = 0
        while not self._stopped.is_set():
            try:
                if self.check(node=count % _CHECKS_PER_NODE_READ == 0):
                    self._changed()
            except Exception:
                _log.exception("checking the device strategy failed, will retry")
            count += 1
            self._stopped.wait(_FILES_SECONDS)

    def _decide(self) -> DeviceAccess:
        facts = read_facts(self._gpus, self._config, self._folders, self._runtime)
        access = device_access(self._config.device_strategy, facts)
        if access.cdi_kind == OWN_CDI_KIND:
            self._write_own_spec(access)
        return access

    def _write_own_spec(self, access: DeviceAccess) -> None:
        """Write the agent's spec. It is never removed: the kubelet repeats the names when it restarts a
        container."""
        path = self._folders.own_cdi_spec
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, own_spec(self._gpus, access.control_paths))
        self._seen = fingerprint(self._folders)

    def _look_at_node(self) -> None:
        try:
            facts = self._read_node()
        except NodeUnreadError as error:
            _log.warning("%s", error)
            return
        self._runtime = facts.runtime or self._runtime
        if facts.other_offers and facts.other_offers != self.other_offers:
            _log.warning(
                "GPUs of this node are also offered by another device plugin offers=%r; no new worker starts here",
                ", ".join(facts.other_offers),
            )
        self.other_offers = facts.other_offers
