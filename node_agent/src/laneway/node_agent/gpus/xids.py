"""The meaning of the driver's XID errors: one table, which ``node.yaml`` may override.

Sources: NVIDIA's XID catalogue, column *Resolution Bucket (Immediate Action)*
(https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html); the XIDs that NVIDIA's device plugin
ignores as application errors (k8s-device-plugin, ``internal/rm/health.go``: 13, 31, 43, 45, 68, 109); DCGM's
health checks, which treat uncontained memory errors as failures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from laneway.api.health_config import HealthConfig


class XidClass(Enum):
    """What to do about a GPU after an XID."""

    IGNORED = "ignored"
    """An application's error, or a message without consequences: the GPU stays in use."""

    QUARANTINE = "quarantine"
    """The GPU may be at fault: it is unhealthy until a period without errors has passed."""

    RESET = "reset"
    """The GPU is unhealthy until it is reset or the node is rebooted."""


@dataclass(frozen=True, slots=True)
class XidKind:
    """An XID: its name in the catalogue, and its severity."""

    name: str
    severity: XidClass


_IGNORED: Final = {
    11: "invalid or corrupted push buffer stream",  # RESTART_APP, CHECK_APP
    13: "graphics engine exception",  # RESTART_APP; plugin
    31: "GPU memory page fault",  # RESTART_APP; plugin
    32: "invalid or corrupted push buffer stream",  # RESTART_APP, CHECK_APP
    43: "GPU stopped processing for an application",  # IGNORE; plugin
    44: "fault during a context switch",  # IGNORE
    45: "preemptive cleanup after previous errors",  # follows another XID; plugin
    63: "memory page retired or row remapped",  # IGNORE: the driver itself reports whether a reset is due
    68: "video decoder exception",  # RESTART_APP; plugin
    69: "graphics engine class error",  # RESTART_APP, CHECK_APP
    80: "corrupted data sent to the GPU",  # RESTART_APP, CHECK_APP
    92: "high rate of corrected memory errors",  # IGNORE
    93: "too many erases of the InfoROM",  # IGNORE
    106: "SMBus test message",  # IGNORE
    107: "SMBus test message",  # IGNORE
    108: "NVLink remote translation error",  # IGNORE
    109: "context switch timeout",  # the catalogue says RESET_GPU, the plugin ignores it: most come from applications
    121: "chip-to-chip link error, corrected",  # IGNORE
    137: "NVLink access without permission",  # IGNORE: a peer's application
    141: "fast path error",  # IGNORE
    154: "GPU recovery action changed",  # the reading has the action itself
    160: "channel retired",  # IGNORE
    161: "channel retirement failure",  # IGNORE
}

_QUARANTINE: Final = {
    8: "GPU stopped processing",  # RESTART_APP, CONTACT_SUPPORT
    38: "driver firmware error",
    61: "internal micro-controller breakpoint",
    74: "NVLink error",  # WORKFLOW_NVLINK_ERR: a link may train again
    94: "contained memory error",  # RESTART_APP: only the affected application is lost
    122: "SPI read failure",
    123: "SPI write failure",
    157: "resource retirement failure",
}

_RESET: Final = {
    46: "GPU stopped processing",  # RESET_GPU
    48: "double bit ECC error",  # WORKFLOW_XID_48, which ends with a reset
    62: "internal micro-controller halt",  # RESET_GPU
    64: "memory page retirement or row remapping failed",  # RESET_GPU
    79: "GPU has fallen off the bus",  # RESTART_BM
    95: "uncontained memory error",  # RESET_GPU
    110: "security fault",  # RESET_GPU
    119: "GPU system processor does not answer",  # RESET_GPU
    120: "GPU system processor error",  # RESET_GPU
    136: "NVLink training failed",  # RESET_GPU
    140: "unrecovered ECC error",  # RESET_GPU
    143: "GPU initialization error",  # RESET_GPU
    151: "key rotation error",  # RESTART_VM
    155: "NVLink error defined by software",  # RESET_GPU
    156: "resource retired",  # RESET_GPU
    158: "GPU fatal timeout",  # RESET_GPU
}

XIDS: Final[Mapping[int, XidKind]] = MappingProxyType(
    {
        number: XidKind(name, severity)
        for severity, names in (
            (XidClass.IGNORED, _IGNORED),
            (XidClass.QUARANTINE, _QUARANTINE),
            (XidClass.RESET, _RESET),
        )
        for number, name in sorted(names.items())
    }
)

_UNLISTED: Final = XidKind("not in the agent's table", XidClass.QUARANTINE)
"""As in NVIDIA's device plugin: an unlisted XID counts as an error of the GPU."""


def describe(number: int) -> str:
    """Return an XID for people: ``XID 79 (GPU has fallen off the bus)``."""
    return f"XID {number} ({XIDS.get(number, _UNLISTED).name})"


def severity_of(number: int, config: HealthConfig) -> XidClass:
    """Return the severity of an XID on this node."""
    if number in config.ignored_xids:
        return XidClass.IGNORED
    if number in config.quarantine_xids:
        return XidClass.QUARANTINE
    if number in config.reset_xids:
        return XidClass.RESET
    return XIDS.get(number, _UNLISTED).severity
