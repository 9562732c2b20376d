"""What the author of a pod with a share may not write: it would give the pod more than its share.

The chart's admission policy (``templates/pod-admission.yaml``) has the same names and refuses such pods. The operator refuses such
templates itself, because the policy can be switched off.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any, Final

from laneway.api import names

USERS_VARIABLES: Final = (
    "LANEWAY_FIT",
    "LANEWAY_STOP_TIMEOUT_SECONDS",
    "LANEWAY_AGENT_TIMEOUT_SECONDS",
    "LANEWAY_LOADER_WORKERS",
)
"""Of Laneway's variables, those that a pod may set (docs/contracts.md)."""

_RESERVED_VARIABLES: Final = ("NVIDIA_VISIBLE_DEVICES",)
_RESERVED_PREFIXES: Final = ("CUDA_MPS_", "LANEWAY_")

OPERATORS_LABELS: Final = (
    names.JOB_LABEL,
    names.JOB_UID_LABEL,
    names.RANK_LABEL,
    names.ATTEMPT_LABEL,
    names.GANG_LABEL,
)
OPERATORS_ANNOTATIONS: Final = (
    names.GPUS_ANNOTATION,
    names.TEMPLATE_HASH_ANNOTATION,
    names.SPANS_GPUS_ANNOTATION,
    names.SHARING_ANNOTATION,
    names.PROFILE_ANNOTATION,
)

PLUGINS_PATHS: Final = (
    names.CONTAINER_LANEWAY_FOLDER,
    names.CONTAINER_MPS_PIPE_FOLDER,
    names.CONTAINER_CLIENT_FOLDER,
    names.CONTAINER_PRELOAD_FILE,
)
"""Where the device plugin mounts into a container with a share."""


def is_reserved_variable(name: str) -> bool:
    """Return whether a pod with a share must not set this variable itself."""
    if name in USERS_VARIABLES:
        return False
    return name in _RESERVED_VARIABLES or name.startswith(_RESERVED_PREFIXES)


def template_problem(template: Mapping[str, Any]) -> str:
    """Return what is reserved in a pod template, as a sentence; empty if nothing is."""
    for kind in ("containers", "initContainers"):
        for number, container in enumerate(template["spec"].get(kind) or ()):
            for each in container.get("env") or ():
                if is_reserved_variable(each["name"]):
                    return (
                        f"template.spec.{kind}[{number}].env sets {each['name']}, which is reserved: leave it out. The job's share "
                        "decides which GPUs its workers reach (CUDA_VISIBLE_DEVICES may choose among them). Of Laneway's variables a "
                        f"template may set {', '.join(USERS_VARIABLES)}"
                    )
            for name in _gpu_resources(container):
                return (
                    f"template.spec.{kind}[{number}].resources requests {name}, which is reserved: leave it out, and set spec.gpus. "
                    "Laneway adds the share to the trainer; no other container of a worker has a GPU"
                )
    metadata = template.get("metadata") or {}
    for kind, keys in (("labels", OPERATORS_LABELS), ("annotations", OPERATORS_ANNOTATIONS)):
        for key in keys:
            if key in (metadata.get(kind) or {}):
                return (
                    f"template.metadata.{kind} has {key}, which only Laneway's operator writes: leave it out"
                )
    return ""


def _gpu_resources(container: Mapping[str, Any]) -> Iterator[str]:
    """Yield the kinds of GPUs that a container requests."""
    resources = container.get("resources") or {}
    for name in (names.GPU_PERCENT, "nvidia.com/gpu"):
        if any(name in (resources.get(kind) or {}) for kind in ("limits", "requests")):
            yield name


def covers_plugins_mounts(path: str) -> bool:
    """Return whether a volume mounted at a path of a container lies at, below or above what the device plugin mounts there.

    ``/var/run`` counts as the link to ``/run`` that it is in most images, and a path with ``..`` counts in any case.
    """
    if ".." in path.split("/"):
        return True
    clean = posixpath.normpath(f"/{path}").replace("//", "/").rstrip("/") + "/"
    if clean.startswith("/var/run/"):
        clean = clean.removeprefix("/var")
    return any(clean.startswith(f"{each}/") or f"{each}/".startswith(clean) for each in PLUGINS_PATHS)


def mounts_problem(trainer: Mapping[str, Any]) -> str:
    """Return which volume of a template's trainer would separate it from its share, as a sentence; empty if none would."""
    for mount in trainer.get("volumeMounts") or ():
        path = mount.get("mountPath") or ""
        if covers_plugins_mounts(path):
            return (
                f"template.spec: the trainer mounts a volume at {path}, where it has Laneway's client and its connection to the "
                f"node: mount it elsewhere, neither at, below or above {', '.join(PLUGINS_PATHS)} nor with .. in the path. /data or "
                "/opt/data will do"
            )
    return ""
