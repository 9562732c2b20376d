"""The plugin's paths on its node."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from laneway.api import names


@dataclass(frozen=True)
class Folders:
    """Paths as the host sees them. They appear in containers' mounts, so the plugin must see the same
    ones."""

    inventory: Path = Path(names.INVENTORY_FILE)
    containers: Path = Path(names.CONTAINERS_FOLDER)
    client: Path = Path(names.CLIENT_FOLDER)
    mps: Path = Path(names.MPS_FOLDER)
    device_plugins: Path = Path("/var/lib/kubelet/device-plugins")
    """Fixed by the kubelet, whatever its root directory."""
    pod_resources_socket: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    runtime_socket: Path | None = Path("/run/containerd/containerd.sock")
    """The container runtime's socket; None if the runtime is not queried."""

    @property
    def pod_requests(self) -> Path:
        """What the node's other pods request, for the agent: beside the inventory."""
        return self.inventory.with_name(Path(names.POD_REQUESTS_FILE).name)

    @property
    def kubelet_socket(self) -> Path:
        """The socket on which the kubelet accepts registrations."""
        return self.device_plugins / "kubelet.sock"

    @property
    def own_socket(self) -> Path:
        """The plugin's own socket."""
        return self.device_plugins / "laneway.sock"
