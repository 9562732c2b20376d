"""Decides how the GPUs reach containers: pure.

In the order of preference:

- ``cdi``: the runtime resolves names that only the kubelet passes on; they survive a reload of systemd.
- ``device-specs``: the kubelet passes device nodes; the driver's libraries come from a folder of the host.
- ``volume-mounts``: NVIDIA's runtime reads mounts, which a pod without volumes of the host cannot make.
- ``env``: NVIDIA's runtime reads a variable, and a pod's own value of it wins. ``auto`` never takes it: where nothing
  stronger is certain, ``device-specs`` needs no more than it does, NVIDIA's runtime for the driver's libraries.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from laneway.api import names
from laneway.api.inventory import DeviceAccess
from laneway.api.node_config import DeviceStrategy
from laneway.node_agent.gpus.protocol import GPUInfo

STRATEGIES: tuple[DeviceStrategy, ...] = ("cdi", "device-specs", "volume-mounts", "env")
"""The strongest first."""

_AUTOMATIC = STRATEGIES[:-1]
"""Those that ``auto`` chooses from."""

_CDI_BY_DEFAULT = {"containerd": (2, 0), "cri-o": (1, 23)}
"""The first versions that resolve CDI names without configuration."""

_RUNTIMES_LIBRARIES = (
    "the driver's libraries come from NVIDIA's container runtime, which has to be the containers' own; else set "
    "driverRoot"
)
_IGNORED_VARIABLE = (
    f"; with accept-nvidia-visible-devices-envvar-when-unprivileged = false in {names.TOOLKIT_CONFIG_FILE} that "
    "runtime does not add them: set driverRoot, or write a CDI spec with `nvidia-ctk cdi generate`"
)
_TRUSTS_ENVIRONMENT: dict[bool | None, str] = {
    True: "; where NVIDIA's runtime is the default, it follows a pod's own NVIDIA_VISIBLE_DEVICES, until "
    f"{names.TOOLKIT_CONFIG_FILE} has accept-nvidia-visible-devices-envvar-when-unprivileged = false",
    False: "",
    None: "; the agent finds no config.toml of NVIDIA's runtime, which may follow a pod's own NVIDIA_VISIBLE_DEVICES "
    "where it is the default (the chart's node.nvidiaRuntimeFolder)",
}


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a strategy depends on."""

    gpus: tuple[GPUInfo, ...]
    runtime: str = ""
    """Container runtime as the Node names it, such as ``containerd://2.1.4``; empty: unknown."""

    cdi_names: frozenset[str] = frozenset()
    """Devices of the kind nvidia.com/gpu in the node's CDI specs."""

    control_paths: tuple[str, ...] = ()
    """Device nodes of the driver itself."""

    accepts_mounts: bool = False
    """Whether NVIDIA's container runtime accepts GPUs as volume mounts."""

    driver_root: str = ""
    trusts_environment: bool | None = None
    """Whether NVIDIA's container runtime follows an unprivileged pod's own variable; None: unknown."""

    @property
    def have_nodes(self) -> bool:
        """Whether each GPU has a device node."""
        return all(gpu.device_paths for gpu in self.gpus)

    @property
    def named_by_nvidia(self) -> bool:
        """Whether a CDI spec on the node names all GPUs by uuid."""
        return {gpu.uuid for gpu in self.gpus} <= self.cdi_names

    @property
    def libraries_problem(self) -> str:
        """Why a container with device nodes alone would lack the driver's libraries, as a clause."""
        if self.driver_root or all(gpu.simulated for gpu in self.gpus):
            return ""
        return "without driverRoot, device nodes alone come without the driver's libraries"


def device_access(configured: Literal["auto"] | DeviceStrategy, facts: DeviceFacts) -> DeviceAccess:
    """Return the configured strategy, or the strongest possible one for ``auto``, with the reason."""
    facts = replace(facts, gpus=tuple(gpu for gpu in facts.gpus if gpu.device_paths or not gpu.simulated))
    if not facts.gpus:
        return DeviceAccess(reason="simulated GPUs have no device", runtime=facts.runtime)
    problems = {strategy: _problem(strategy, facts) for strategy in STRATEGIES}
    if configured == "auto":
        chosen, reason = _strongest(problems, facts)
    else:
        chosen = configured
        reason = "configured" + (f", although {problems[chosen]}" if problems[chosen] else "")
    real = not all(gpu.simulated for gpu in facts.gpus)
    if chosen in ("cdi", "device-specs") and real:
        reason += _TRUSTS_ENVIRONMENT[facts.trusts_environment]
    return DeviceAccess(
        strategy=chosen,
        reason=reason,
        cdi_kind=_cdi_kind(facts) if chosen == "cdi" else "",
        control_paths=facts.control_paths if chosen in ("cdi", "device-specs") else (),
        runtime=facts.runtime,
    )


def _strongest(problems: Mapping[DeviceStrategy, str], facts: DeviceFacts) -> tuple[DeviceStrategy, str]:
    """Return the strongest strategy whose needs are certain to be met, else device nodes; and why."""
    chosen = next((strategy for strategy in _AUTOMATIC if not problems[strategy]), None)
    stronger = _AUTOMATIC if chosen is None else _AUTOMATIC[: _AUTOMATIC.index(chosen)]
    lacking = "; ".join(f"no {strategy}: {problems[strategy]}" for strategy in stronger)
    if chosen is not None:
        return chosen, lacking or _source(chosen, facts)
    ignored = _IGNORED_VARIABLE if facts.trusts_environment is False else ""
    return "device-specs", f"{lacking}; so {_RUNTIMES_LIBRARIES}{ignored}"


def _problem(strategy: DeviceStrategy, facts: DeviceFacts) -> str:
    """Return why a strategy is not possible, as a clause; empty if it is."""
    if strategy == "cdi":
        return _runtime_problem(facts.runtime) or ("" if facts.named_by_nvidia else _own_spec_problem(facts))
    if strategy == "device-specs":
        return _nodes_problem(facts) or facts.libraries_problem
    if strategy == "volume-mounts" and not facts.accepts_mounts:
        return (
            "NVIDIA's container runtime does not accept them "
            f"(accept-nvidia-visible-devices-as-volume-mounts in {names.TOOLKIT_CONFIG_FILE})"
        )
    return ""


def _nodes_problem(facts: DeviceFacts) -> str:
    return "" if facts.have_nodes else "the driver names no device node of a GPU"


def _own_spec_problem(facts: DeviceFacts) -> str:
    problem = _nodes_problem(facts) or facts.libraries_problem
    return (
        f"no CDI spec on the node names each GPU by its UUID as {names.NVIDIA_CDI_KIND}, and {problem}"
        if problem
        else ""
    )


def _runtime_problem(runtime: str) -> str:
    """Return why the runtime may not resolve CDI names, as a clause; empty if it does."""
    found = re.match(r"([a-z-]+)://v?(\d+)\.(\d+)", runtime)
    if found is None:
        return f"the container runtime is not known ({runtime or 'the Node has not been read'})"
    since = _CDI_BY_DEFAULT.get(found[1])
    if since is None or (int(found[2]), int(found[3])) < since:
        return f"{runtime} resolves CDI names only if it is configured to; if it is, set deviceStrategy: cdi"
    return ""


def _cdi_kind(facts: DeviceFacts) -> str:
    return names.NVIDIA_CDI_KIND if facts.named_by_nvidia else names.OWN_CDI_KIND


def _source(chosen: DeviceStrategy, facts: DeviceFacts) -> str:
    if chosen != "cdi":
        return "strongest strategy"
    if facts.named_by_nvidia:
        return f"strongest strategy; a CDI spec on the node names each GPU as {names.NVIDIA_CDI_KIND}"
    return f"strongest strategy; the agent's own CDI spec names each GPU as {names.OWN_CDI_KIND}"
