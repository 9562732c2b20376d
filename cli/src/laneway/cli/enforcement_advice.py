"""What holds the containers of a node to their quotas, in words, and what to do where that is less than was requested. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from laneway.api.enforcement import Enforcement, reaches
from laneway.api.gpu_node import GPUStatus, SessionState

_HOLDS = {
    Enforcement.NONE: "nothing holds quotas",
    Enforcement.COOPERATIVE: "only clients hold quotas, neither the watchdog, the interposer nor MPS is requested",
    Enforcement.WATCHDOG: "the watchdog holds quotas, neither the interposer nor MPS is requested",
    Enforcement.INTERPOSER: "the interposer holds quotas, MPS is not requested",
    Enforcement.MPS: "the MPS server holds quotas",
}
"""Of a GPU that has the level that its node requests."""

_ADVICE = (
    (
        "bypass the MPS server",
        "run that command on the node when no container uses the GPU, or request enforcement.level: Interposer",
    ),
    (
        "MPS limits memory from",
        "request enforcement.level: Interposer for such nodes, by the chart's nodeGroups",
    ),
    (
        "nvidia-cuda-mps-control is not in",
        "install the driver's MPS programs on the node, or set the chart's driverRoot",
    ),
    (
        "MPS control daemon",
        "look at the MPS pod of the node: kubectl get pods -A -o wide -l app.kubernetes.io/component=mps-daemon",
    ),
    (
        "is in the compute mode EXCLUSIVE_PROCESS",
        "on the node: nvidia-smi --compute-mode DEFAULT; the agent then repeats the test by itself",
    ),
    (
        "self-test",
        "the watchdog holds quotas meanwhile; after a repair, delete /var/lib/laneway/agent/interposer-tests.json on the "
        "node and restart its agent",
    ),
    ("comes with the client's image", "look at the logs of the init container client of the node's pod"),
    (
        "capability KILL",
        "the chart gives it to the agent: look for a policy of the cluster that takes it away",
    ),
    ("watchdog.action", "set watchdog.action: Evict in the chart's node.config"),
)
"""Parts of a reason, and what to do; the first one that it has counts."""

ONE_PROCESS = "EXCLUSIVE_PROCESS"
"""Part of the warning about a GPU that has room for one process."""

ONE_PROCESS_ADVICE = "on the node: nvidia-smi --compute-mode DEFAULT; or share the GPU by MPS, with the chart's enforcement.level: MPS"

NOT_LOADED_ADVICE = (
    "start the containers again if they are older than the interposer on the node; otherwise their images evade it: "
    "docs/isolation.md, What the interposer does not hold"
)


def held_by(gpus: Iterable[GPUStatus]) -> str:
    """Return what holds quotas on GPUs that have the levels that were requested, as clauses."""
    return "; ".join(_HOLDS[level] for level in sorted({gpu.enforcement for gpu in gpus}))


def advice(reason: str) -> str:
    """Return what to do about a level that is lower than requested."""
    default = "jobs that demand more are not placed there (spec.minimumEnforcement)"
    return next((text for part, text in _ADVICE if part in reason), default)


def not_interposed(gpu: GPUStatus) -> Iterator[str]:
    """Yield the containers on a GPU whose processes hold memory there, and that the interposer or MPS does not hold."""
    if gpu.simulated or not reaches(gpu.enforcement, Enforcement.INTERPOSER):
        return  # the memory of a simulated GPU is the host's
    for session in gpu.sessions:
        held = session.held_bytes and session.state != SessionState.ENDED
        if held and not reaches(session.enforcement, Enforcement.INTERPOSER):
            yield f"{session.namespace}/{session.pod}"
