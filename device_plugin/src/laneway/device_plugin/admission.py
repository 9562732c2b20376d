"""Chooses the ids for the pod that the kubelet is admitting: finds out which pod that is, then asks `preference`."""

from __future__ import annotations

import logging
from dataclasses import replace

from laneway.api.inventory import Inventory
from laneway.device_plugin.kubelet_records import KubeletAwayError, KubeletRecords, Listing
from laneway.device_plugin.node_pods import ApiAwayError, NodePods
from laneway.device_plugin.pod_facts import PodFacts
from laneway.device_plugin.preference import Ask, Preferred, prefer
from laneway.device_plugin.who_asks import askers, promised_to, waiting, wishes_of

_log = logging.getLogger(__name__)

_POD_READ_SECONDS = 1.0


class Admission:
    """Chooses ids, with the kubelet's records and the view of the node's pods at hand.

    The kubelet admits one pod at a time: a choice, then `Allocate`, then its booking, then the next pod.
    """

    def __init__(self, records: KubeletRecords, pods: NodePods) -> None:
        self._records = records
        self._pods = pods
        self._held: frozenset[str] = frozenset()

    def held_at_last_choice(self) -> frozenset[str]:
        """Return the ids that other containers held when the last choice was made, and forget them.

        Only the `Allocate` that follows a choice may rely on them: later the holders may have ended.
        """
        held, self._held = self._held, frozenset()
        return held

    async def choose(self, ask: Ask, inventory: Inventory) -> Preferred:
        """Return the ids for the container that is being admitted.

        Raises:
            NothingFitsError: no allowed choice exists on this node.
            ValueError: an id that is on offer is not one of ours.
        """
        self._held = frozenset()
        listing = await self._listing()
        if listing is not None:
            # An id may be on offer although it is held: see `kubelet_records`.
            self._held = listing.held - set(ask.must_include)
            ask = replace(ask, available=tuple(one for one in ask.available if one not in self._held))
        asking = await self._asking(listing, ask.size)
        others = [pod for pod in self._waiting(listing) if pod not in asking]
        chosen = prefer(ask, inventory.gpus, wishes_of(asking, ask.size), promised_to(others))
        _log.info(
            "%d percent for %s: %s",
            ask.size,
            " or ".join(f"{pod.namespace}/{pod.name}" for pod in asking) or "a pod that is not known yet",
            chosen.reason,
        )
        return chosen

    async def _listing(self) -> Listing | None:
        try:
            return await self._records.list()
        except KubeletAwayError as error:
            _log.warning("choosing by the view of the pods alone: %s", error)
            return None

    async def _asking(self, listing: Listing | None, size: int) -> list[PodFacts]:
        if listing is None:
            return [pod for pod in self._waiting(None) if size in pod.requests.values()]
        found = askers(listing, self._pods.pods, size)
        if found.unknown and not found.pods:
            # The kubelet has seen a pod that we have not: it is the one, or a former one of its name is in our view.
            for key in found.unknown:
                try:
                    await self._pods.fetch(key, _POD_READ_SECONDS)
                except ApiAwayError as error:
                    _log.warning("the operator's choice for %s/%s is not known: %s", *key, error)
                    break
            found = askers(listing, self._pods.pods, size)
        return list(found.pods)

    def _waiting(self, listing: Listing | None) -> list[PodFacts]:
        holders = () if listing is None else {(holder.namespace, holder.pod) for holder in listing.holders}
        return waiting(self._pods.pods.values(), holders)
