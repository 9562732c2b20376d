"""CDI specs (Container Device Interface, https://github.com/cncf-tags/container-device-interface): those on the
node, and the agent's own.

The agent's spec has device nodes only. Which libraries of the driver a container needs, and where, is the
knowledge of NVIDIA's toolkit; a spec of ours must not promise it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from laneway.api import names
from laneway.node_agent.gpus.protocol import GPUInfo

_log = logging.getLogger(__name__)
_VERSION = "0.5.0"
"""The first version in which a device's name may begin with a digit."""


def spec_files(folders: Iterable[Path]) -> list[Path]:
    """Return the CDI specs in these folders, as a container runtime finds them."""
    found = []
    for folder in folders:
        try:
            found += [path for path in sorted(folder.iterdir()) if path.suffix in (".json", ".yaml")]
        except OSError:
            continue
    return found


def device_names(files: Iterable[Path], kind: str) -> frozenset[str]:
    """Return the names of the devices of a kind in these specs. An unreadable spec is logged and has none."""
    return frozenset(name for path in files for name in _names(path, kind))


def own_spec(gpus: Iterable[GPUInfo], control_paths: Iterable[str]) -> str:
    """Return a spec of kind ``laneway.dev/gpu`` that names these GPUs by uuid, with their device nodes."""
    return json.dumps(
        {
            "cdiVersion": _VERSION,
            "kind": names.OWN_CDI_KIND,
            "devices": [
                {"name": gpu.uuid, "containerEdits": {"deviceNodes": _nodes(gpu.device_paths)}}
                for gpu in gpus
                if gpu.device_paths
            ],
            "containerEdits": {"deviceNodes": _nodes(control_paths)},
        },
        indent=1,
    )


def _nodes(paths: Iterable[str]) -> list[dict[str, str]]:
    return [{"path": path, "permissions": "rw"} for path in paths]


def _names(path: Path, kind: str) -> Iterator[str]:
    try:
        spec: Any = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, yaml.YAMLError) as error:
        _log.warning("CDI spec ignored path=%s error=%r", path, str(error))
        return
    if not isinstance(spec, dict) or spec.get("kind") != kind:
        return
    devices = spec.get("devices")
    for device in devices if isinstance(devices, list) else ():
        if isinstance(device, dict):
            yield str(device.get("name", ""))
