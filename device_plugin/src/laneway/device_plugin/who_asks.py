"""For which container the kubelet asks: `GetPreferredAllocation` is not told, but the kubelet's records give it away.

While the kubelet admits a pod, its PodResources list names that pod already, with no ids in the container that is
being served; pods admitted before hold theirs, rejected ones are gone, and later ones have not been added yet. So who is
listed without ids, though it asks for exactly so many, is who is asking.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from laneway.device_plugin.kubelet_records import Listing
from laneway.device_plugin.pod_facts import PodFacts, PodKey
from laneway.device_plugin.preference import Wish


@dataclass(frozen=True)
class Askers:
    """Who may be asking, and whom one would have to ask the API server about to be sure."""

    pods: tuple[PodFacts, ...]
    unknown: tuple[PodKey, ...]


def askers(listing: Listing, pods: Mapping[PodKey, PodFacts], size: int) -> Askers:
    """Find the pods with a container that asks for ``size`` percent and holds none.

    A pod that has ended or started already while the kubelet says that it is about to start is a former one of
    that name: what is known of it says nothing about the new one, so it counts as unknown.
    """
    found, unknown = [], []
    for key, containers in listing.containers.items():
        facts = pods.get(key)
        if facts is None:
            unknown.append(key)
        elif any(percent == size and not containers.get(name) for name, percent in facts.requests.items()):
            if facts.ended or facts.started:
                unknown.append(key)
            else:
                found.append(facts)
    return Askers(tuple(sorted(found, key=_age)), tuple(unknown))


def waiting(pods: Iterable[PodFacts], holders: Iterable[PodKey]) -> list[PodFacts]:
    """Return the pods of this node that ask for a share and hold none yet, the oldest first."""
    holding = set(holders)
    return sorted(
        (
            pod
            for pod in pods
            if pod.requests and not pod.ended and not pod.started and pod.key not in holding
        ),
        key=_age,
    )


def wishes_of(pods: Iterable[PodFacts], size: int) -> list[Wish]:
    """Return the operator's choices for pods that ask for ``size`` percent in one container."""
    return [
        Wish(f"{pod.namespace}/{pod.name}", pod.chosen_gpus)
        for pod in pods
        if pod.chosen_gpus and size in pod.requests.values()
    ]


def promised_to(pods: Iterable[PodFacts]) -> dict[str, int]:
    """Return how many percent of each GPU the operator chose for these pods."""
    promised: dict[str, int] = {}
    for pod in pods:
        gpus = pod.chosen_gpus
        for uuid in gpus:
            promised[uuid] = promised.get(uuid, 0) + sum(pod.requests.values()) // len(gpus)
    return promised


def _age(pod: PodFacts) -> tuple[float, str, str]:
    return pod.created_seconds, pod.namespace, pod.name
