"""``laneway-node-agent mps-daemon``: keeps NVIDIA's MPS control daemon running, in a process of its own.

In a cluster it is a pod of its own, so that an upgrade or a restart of the agent ends no client's work.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from laneway.api.inventory import Inventory
from laneway.node_agent.enforcement.mps_control import MPSFolders
from laneway.node_agent.enforcement.mps_daemon import MPSDaemon
from laneway.node_agent.host_folders import HostFolders
from pydantic import ValidationError

_log = logging.getLogger(__name__)
_WAIT_SECONDS = 1.0


def run(arguments: Sequence[str]) -> int:
    """Run the daemon until SIGTERM or SIGINT, then quit it in order. Return 0."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    folders = HostFolders(options.root)
    gpus = _await_gpus(folders, stopped)
    if stopped.is_set():
        return 0
    daemon = MPSDaemon(MPSFolders(folders.mps), gpus, lambda: None)
    daemon.start()
    stopped.wait()
    daemon.stop()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="laneway-node-agent mps-daemon",
        description="Run NVIDIA's MPS control daemon for the GPUs that the agent reports, with enforcement.level: MPS.",
    )
    parser.add_argument(
        "--root", type=Path, default=Path("/"), help="root of the agent's folders (%(default)s)"
    )
    return parser


def _await_gpus(folders: HostFolders, stopped: threading.Event) -> list[str]:
    """Return the uuids of the node's real GPUs as soon as the agent has reported some; none if stopped."""
    reported = ""
    while not stopped.is_set():
        try:
            inventory = Inventory.model_validate_json(folders.inventory.read_bytes())
            gpus = [gpu.uuid for gpu in inventory.gpus if not gpu.simulated]
            reason = "the agent reports no real GPU"
        except (OSError, ValidationError) as error:
            gpus, reason = [], f"{folders.inventory} cannot be read: {error}"
        if gpus:
            return gpus
        if reason != reported:
            _log.info("waiting for GPUs reason=%r", reason)
        reported = reason
        stopped.wait(_WAIT_SECONDS)
    return []
