"""Paths on the host (docs/contracts.md, "Host folders"), below a root that tests can move."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from laneway.api import names


@dataclass(frozen=True, slots=True)
class HostFolders:
    """The paths of one node."""

    root: Path = Path("/")

    @property
    def containers(self) -> Path:
        """One folder for each container that holds shares of a GPU."""
        return self._below(names.CONTAINERS_FOLDER)

    @property
    def inventory(self) -> Path:
        """The GPUs of the node, for the device plugin."""
        return self._below(names.INVENTORY_FILE)

    @property
    def pod_requests(self) -> Path:
        """What the node's other pods request; written by the device plugin."""
        return self._below(names.POD_REQUESTS_FILE)

    @property
    def simulated_faults(self) -> Path:
        """Faults of simulated GPUs; written by tests."""
        return self._below(names.SIMULATED_FAULTS_FILE)

    @property
    def simulated_kernels(self) -> Path:
        """The time that processes of simulated GPUs compute; written by them."""
        return self._below(names.SIMULATED_KERNELS_FOLDER)

    @property
    def account_socket(self) -> Path:
        """Where the interposer looks for its account in the agent's own pod, during its self-test."""
        return self._below(f"{names.CONTAINER_LANEWAY_FOLDER}/{names.ACCOUNT_SOCKET_NAME}")

    @property
    def mps(self) -> Path:
        """What the MPS control daemon shares with its clients."""
        return self._below(names.MPS_FOLDER)

    @property
    def cdi(self) -> tuple[Path, ...]:
        """Folders of CDI specs."""
        return tuple(map(self._below, names.CDI_FOLDERS))

    @property
    def own_cdi_spec(self) -> Path:
        """The CDI spec that the agent writes."""
        return self._below(names.OWN_CDI_FILE)

    @property
    def toolkit_config(self) -> Path:
        """The configuration of NVIDIA's container runtime."""
        return self._below(names.TOOLKIT_CONFIG_FILE)

    @property
    def devices(self) -> Path:
        """Device nodes."""
        return self._below("/dev")

    @property
    def client(self) -> Path:
        """The client and the memory interposer, as containers see them."""
        return self._below(names.CLIENT_FOLDER)

    @property
    def orders(self) -> Path:
        """Orders given at the node's shell."""
        return self._below(names.ORDERS_FILE)

    @property
    def saved_orders(self) -> Path:
        """The cluster's orders as last read."""
        return self.agent_state / "orders.json"

    @property
    def agent_state(self) -> Path:
        """What the agent remembers over a restart."""
        return self._below(names.AGENT_STATE_FOLDER)

    def make(self) -> None:
        """Create the folders that the agent owns or watches.

        Raises:
            OSError: the root cannot be written to.
        """
        self.containers.mkdir(parents=True, exist_ok=True)
        self.agent_state.mkdir(parents=True, exist_ok=True, mode=0o700)

    def _below(self, absolute: str) -> Path:
        return self.root / absolute.lstrip("/")
