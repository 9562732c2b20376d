"""Reads from the node's files what a device strategy depends on."""

from __future__ import annotations

import logging
import tomllib
from pathlib import Path
from typing import Any

from laneway.api import names
from laneway.api.inventory import Inventory
from laneway.api.node_config import NodeConfig
from laneway.node_agent.devices.cdi import device_names, spec_files
from laneway.node_agent.devices.strategy import DeviceFacts
from laneway.node_agent.gpus.protocol import GPUInfo
from laneway.node_agent.host_folders import HostFolders
from pydantic import ValidationError

_log = logging.getLogger(__name__)
_CONTROL_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")


def read_facts(
    gpus: tuple[GPUInfo, ...], config: NodeConfig, folders: HostFolders, runtime: str
) -> DeviceFacts:
    """Return what the node supports. Device nodes count if the agent's own container has them: NVIDIA's
    runtime or the container's privilege puts all of the node's there."""
    own = folders.own_cdi_spec
    toolkit = _toolkit_settings(folders.toolkit_config)
    return DeviceFacts(
        gpus=gpus,
        runtime=runtime,
        cdi_names=device_names(
            (path for path in spec_files(folders.cdi) if path != own), names.NVIDIA_CDI_KIND
        ),
        control_paths=tuple(
            f"/dev/{name}"
            for name in _CONTROL_NODES
            if not all(gpu.simulated for gpu in gpus) and (folders.devices / name).exists()
        ),
        accepts_mounts=(toolkit or {}).get("accept-nvidia-visible-devices-as-volume-mounts") is True,
        trusts_environment=None
        if toolkit is None
        else toolkit.get("accept-nvidia-visible-devices-envvar-when-unprivileged") is not False,
        driver_root=config.driver_root,
    )


def fingerprint(folders: HostFolders) -> tuple[tuple[str, int, int], ...]:
    """Return what changes with any file that :func:`read_facts` reads."""
    files = [*spec_files(folders.cdi), folders.toolkit_config]
    files += [folders.devices / name for name in _CONTROL_NODES]
    found = []
    for path in files:
        try:
            status = path.stat()
        except OSError:
            continue
        found.append((str(path), status.st_ino, status.st_mtime_ns))
    return tuple(found)


def last_runtime(inventory_file: Path) -> str:
    """Return the container runtime that an earlier agent process saw since the node was booted; empty if none
    did."""
    try:
        return Inventory.model_validate_json(inventory_file.read_bytes()).devices.runtime
    except (OSError, ValidationError):
        return ""


def _toolkit_settings(path: Path) -> dict[str, Any] | None:
    """Return the settings of NVIDIA's container runtime; None if it is not configured there."""
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _log.warning("configuration of NVIDIA's runtime ignored path=%s error=%r", path, str(error))
        return None
