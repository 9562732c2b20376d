"""Chooses the ids for the pod that the kubelet admits: finds the pod, then calls `preferred_allocation`."""

from __future__ import annotations

import logging
from dataclasses import replace

from laneway.api.inventory import Inventory
from laneway.device_plugin.admitting_pod import (
    find_candidates,
    free_ids,
    operator_choices,
    pending_pods,
    reserved_percent,
)
from laneway.device_plugin.node_pods import APIUnavailableError, NodePods
from laneway.device_plugin.pod_info import PodInfo
from laneway.device_plugin.pod_resources import KubeletUnavailableError, Listing, PodResourcesClient
from laneway.device_plugin.preferred_allocation import PreferredIds, PreferredRequest, preferred_ids

_log = logging.getLogger(__name__)

_POD_READ_SECONDS = 1.0


class Admission:
    """Chooses ids from the kubelet's records and the view of the node's pods.

    The kubelet admits one pod at a time: a choice, then `Allocate`, then its bookkeeping, then the next pod.
    """

    def __init__(self, records: PodResourcesClient, pods: NodePods) -> None:
        self._records = records
        self._pods = pods
        self._held: frozenset[str] = frozenset()

    def take_held_ids(self) -> frozenset[str]:
        """Return the ids that other containers held at the last choice, and forget them.

        Only the `Allocate` that follows a choice may use them: later the holders may have ended.
        """
        held, self._held = self._held, frozenset()
        return held

    async def choose(self, request: PreferredRequest, inventory: Inventory) -> PreferredIds:
        """Return the ids for the container that is being admitted.

        Raises:
            NoFitError: no allowed choice exists on this node.
            ValueError: an offered id is not one of Laneway's.
        """
        self._held = frozenset()
        listing = await self._listing()
        if listing is not None:
            # The kubelet may offer an id that is held: see `pod_resources`.
            self._held = listing.held - set(request.must_include)
            request = replace(request, available=free_ids(request.available, self._held, inventory))
        admitting = await self._admitting(listing, request.size)
        others = [pod for pod in self._waiting(listing) if pod not in admitting]
        chosen = preferred_ids(
            request, inventory.gpus, operator_choices(admitting, request.size), reserved_percent(others)
        )
        _log.info(
            "chose ids percent=%d pods=%r reason=%r",
            request.size,
            [f"{pod.namespace}/{pod.name}" for pod in admitting],
            chosen.reason,
        )
        return chosen

    async def _listing(self) -> Listing | None:
        try:
            return await self._records.list()
        except KubeletUnavailableError as error:
            _log.warning("choosing ids without the kubelet's records error=%r", str(error))
            return None

    async def _admitting(self, listing: Listing | None, size: int) -> list[PodInfo]:
        if listing is None:
            return [pod for pod in self._waiting(None) if size in pod.requests.values()]
        found = find_candidates(listing, self._pods.pods, size)
        if found.unknown and not found.pods:
            # The kubelet knows a pod that the view lacks, or the view has an earlier pod of its name.
            for key in found.unknown:
                try:
                    await self._pods.fetch(key, _POD_READ_SECONDS)
                except APIUnavailableError as error:
                    _log.warning("operator's choice unknown pod=%s/%s error=%r", key[0], key[1], str(error))
                    break
            found = find_candidates(listing, self._pods.pods, size)
        return list(found.pods)

    def _waiting(self, listing: Listing | None) -> list[PodInfo]:
        holders = () if listing is None else {(holder.namespace, holder.pod) for holder in listing.holders}
        return pending_pods(self._pods.pods.values(), holders)
