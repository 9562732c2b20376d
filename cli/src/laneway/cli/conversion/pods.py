"""What the three kinds have in common: the container that trains, its GPUs, and the variables of the rendezvous."""

from __future__ import annotations

from typing import Any

from laneway.cli.conversion.source import Source

TRAINER = "trainer"
NVIDIA_GPU = "nvidia.com/gpu"

RENDEZVOUS = (
    *("PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
    *("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "NODE_RANK"),
)
"""The variables that Laneway sets in each worker."""


def without_gpus(resources: dict[str, Any]) -> tuple[int | None, dict[str, Any]]:
    """Return the number of GPUs in a container's resources, None without any, and the resources without them."""
    count = None
    rest: dict[str, Any] = {}
    for kind, amounts in resources.items():
        if kind in ("requests", "limits"):
            rest[kind] = {name: amount for name, amount in amounts.items() if name != NVIDIA_GPU}
            count = int(amounts[NVIDIA_GPU]) if NVIDIA_GPU in amounts else count
        else:
            rest[kind] = amounts
    return count, present(rest)


def note_other_gpus(source: Source, pod: dict[str, Any], where: str) -> None:
    """Note the GPUs that a pod still requests; a container's own ones are taken out before, as Laneway gives them."""
    for kind in ("initContainers", "containers"):
        for container in pod.get(kind) or []:
            amounts = (container.get("resources") or {}).get("limits") or {}
            for name in amounts:
                if "gpu" in name or "/mig-" in name:
                    source.note(
                        f"{where}.{kind}[{container['name']}] requests {name}, and was left so: Laneway gives GPUs by spec.gpus only"
                    )


def with_gpus(resources: dict[str, Any], count: int) -> dict[str, Any]:
    """Return a container's resources with GPUs."""
    return {**resources, "limits": {**(resources.get("limits") or {}), NVIDIA_GPU: count}}


def without_rendezvous(source: Source, environment: list[dict[str, Any]], where: str) -> list[dict[str, Any]]:
    """Return a container's variables without those that Laneway sets; each of them is noted."""
    for variable in environment:
        if variable["name"] in RENDEZVOUS:
            source.note(f"{where}[{variable['name']}] was left out: Laneway sets it")
    return [variable for variable in environment if variable["name"] not in RENDEZVOUS]


def whole_gpus(source: Source) -> int:
    """Take ``spec.gpus`` of a TrainingJob, and return the whole GPUs of each worker."""
    kind, count = source.take("spec", "gpus", "type"), source.take("spec", "gpus", "count", default=1)
    amount = source.take("spec", "gpus", "sharePercent") or source.take("spec", "gpus", "memory")
    if kind != "Count":
        unit = "% of a GPU" if kind == "Share" else " of a GPU's memory"
        source.note(f"spec.gpus is {amount}{unit}: only Laneway shares GPUs, so a whole one was written")
    return int(count)


def metadata_of(source: Source) -> dict[str, Any]:
    """Take the metadata that any kind has."""
    found = {
        key: source.take("metadata", key)
        for key in ("name", "generateName", "namespace", "labels", "annotations")
    }
    return {key: value for key, value in found.items() if value}


def present(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that have a value."""
    return {key: value for key, value in fields.items() if value not in (None, {}, [], "")}
