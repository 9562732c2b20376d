"""Names that more than one component, a user's manifest or a dashboard relies on (docs/contracts.md)."""

from __future__ import annotations

from typing import Final

GROUP: Final = "laneway.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

GPU_PERCENT: Final = f"{GROUP}/gpu-percent"
"""The extended resource: hundredths of a GPU."""

OPERATOR_MANAGER: Final = f"{GROUP}/operator"
"""``spec.managedBy`` of a TrainingJob that the operator runs; an absent one means the same."""

JOB_LABEL: Final = f"{GROUP}/job"
JOB_UID_LABEL: Final = f"{GROUP}/job-uid"
RANK_LABEL: Final = f"{GROUP}/rank"
ATTEMPT_LABEL: Final = f"{GROUP}/attempt"

GANG_LABEL: Final = f"{GROUP}/gang"
"""``true`` on the workers of jobs with several: the namespace's Service selects them."""

GANG_SERVICE: Final = "laneway"
"""The headless Service by which the workers of all gangs of a namespace find each other."""

GPUS_ANNOTATION: Final = f"{GROUP}/gpus"
TEMPLATE_HASH_ANNOTATION: Final = f"{GROUP}/template-hash"
SPANS_GPUS_ANNOTATION: Final = f"{GROUP}/spans-gpus"
SHARING_ANNOTATION: Final = f"{GROUP}/sharing"
PROFILE_ANNOTATION: Final = f"{GROUP}/profile"
"""Of a worker's pod: what is known of its template (`laneway.api.template_profile`), as JSON."""
MINIMUM_ENFORCEMENT_ANNOTATION: Final = f"{GROUP}/minimum-enforcement"
"""Of any pod that asks for a share: the weakest level (`laneway.api.enforcement`) at which it may start."""

OPERATOR_FIELD_MANAGER: Final = "laneway-operator"
NODE_FIELD_MANAGER: Final = "laneway-node"
CLI_FIELD_MANAGER: Final = "laneway-cli"

CONTAINERS_FOLDER: Final = "/run/laneway/containers"
POD_REQUESTS_FILE: Final = "/run/laneway/pod-requests.json"
INVENTORY_FILE: Final = "/run/laneway/inventory.json"
SIMULATED_FAULTS_FILE: Final = "/run/laneway/simulated-faults.yaml"
SIMULATED_KERNELS_FOLDER: Final = "/run/laneway/simulated-kernels"
ORDERS_FILE: Final = "/run/laneway/orders.json"
CDI_FOLDERS: Final = ("/etc/cdi", "/var/run/cdi")
"""Where a container runtime looks for CDI specs; the agent writes its own into the last one."""
NVIDIA_CDI_KIND: Final = "nvidia.com/gpu"
OWN_CDI_KIND: Final = f"{GROUP}/gpu"
OWN_CDI_FILE: Final = "/var/run/cdi/laneway.dev-gpu.json"
TOOLKIT_CONFIG_FILE: Final = "/etc/nvidia-container-runtime/config.toml"
CONTAINER_DRIVER_FOLDER: Final = "/usr/local/nvidia"
"""Where a container sees ``driverRoot``."""
CLIENT_FOLDER: Final = "/var/lib/laneway/client"
AGENT_STATE_FOLDER: Final = "/var/lib/laneway/agent"

CONTAINER_LANEWAY_FOLDER: Final = "/run/laneway"
CONTAINER_CLIENT_FOLDER: Final = "/opt/laneway"
INTERPOSER_NAME: Final = "liblaneway-interposer.so"
"""The memory interposer, in the client's folder."""
PRELOAD_NAME: Final = "ld.so.preload"
"""Names the interposer to the dynamic linker; in the client's folder."""
CONTAINER_PRELOAD_FILE: Final = "/etc/ld.so.preload"
SOCKET_NAME: Final = "agent.sock"
ACCOUNT_SOCKET_NAME: Final = "account.sock"
"""Where the memory interposer keeps a container's account."""
RECORD_NAME: Final = "container.json"
QUOTAS_NAME: Final = "quotas"
"""The container's memory quotas, for the interposer where there is no agent."""
IMAGE_PATH_NAME: Final = "image-pythonpath"
"""What the container's image sets PYTHONPATH to."""
CONTAINER_IMAGE_PATH: Final = f"{CONTAINER_LANEWAY_FOLDER}/{IMAGE_PATH_NAME}"
"""As an entry of a container's PYTHONPATH it stands for all that the image's own names."""

MPS_FOLDER: Final = "/run/laneway/mps"
"""Holds the MPS control daemon's `pipe` and `log`, and what it shares with its `clients`."""
MPS_CLIENTS_NAME: Final = "clients"
CONTAINER_MPS_PIPE_FOLDER: Final = "/run/laneway-mps"
