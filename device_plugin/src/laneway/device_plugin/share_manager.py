"""Reconciles the containers' folders with the kubelet's records: each holder of ids has a folder, others
have none.

No state is kept: after a kill at any moment the next comparison rebuilds everything.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from laneway.api.container_record import ContainerRecord
from laneway.api.device_ids import container_key, shares_of
from laneway.api.inventory import Inventory
from laneway.device_plugin.container_folders import ContainerFolders
from laneway.device_plugin.latest_value import LatestValue
from laneway.device_plugin.node_pods import APIUnavailableError, NodePods
from laneway.device_plugin.pod_info import PodInfo
from laneway.device_plugin.pod_resources import Holder, KubeletUnavailableError, PodResourcesClient
from laneway.device_plugin.running_pods import pods_with_processes

_log = logging.getLogger(__name__)

Generations = Mapping[str, int]
"""The container behind each key (`ContainerFolders.generations`)."""


@dataclass(frozen=True)
class Timing:
    """Intervals and time limits, in seconds."""

    interval: float = 4.0
    """Between comparisons without events. If a folder is wiped, the agent keeps its sessions for 10 s, so
    it can be restored in time."""
    settle: float = 0.2
    """From an event to the comparison, because events come in bursts."""
    recheck: float = 2.0
    """From that comparison to the next: the kubelet books the end of a pod shortly after it reports it."""
    admission: float = 30.0
    """How long a folder may exist without a record: the kubelet books ids after `Allocate`."""
    unnamed: float = 10.0
    """How long a container without a known pod uid must be missing in the records before its folder is
    removed."""
    pod_read: float = 2.0
    """Time limit for reading one pod from the API server."""


class ShareManager:
    """Compares the kubelet's records with the folders and corrects the folders."""

    def __init__(
        self,
        folders: ContainerFolders,
        records: PodResourcesClient,
        pods: NodePods,
        inventory: LatestValue[Inventory],
        timing: Timing | None = None,
        running: Callable[[], Collection[str]] = pods_with_processes,
    ) -> None:
        """``running`` returns the uids of the pods that have processes."""
        self.problem = ""
        self._folders = folders
        self._records = records
        self._pods = pods
        self._inventory = inventory
        self._timing = timing or Timing()
        self._running_pods = running
        self._missing_since: dict[str, float] = {}
        self._triggered = asyncio.Event()

    def trigger(self) -> None:
        """Request a comparison soon."""
        self._triggered.set()

    async def run(self) -> None:
        """Compare now, after each trigger and every interval, until cancelled."""
        self._folders.delete_leftovers()
        pause = 0.0
        while True:
            if await self._triggered_within(pause):
                await asyncio.sleep(self._timing.settle)
                pause = self._timing.recheck
            else:
                pause = self._timing.interval
            self._triggered.clear()
            await self._reconcile()

    async def _triggered_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(
                seconds
            ):  # asyncio.wait_for loses a cancellation that comes with the trigger
                await self._triggered.wait()
        except TimeoutError:
            return False
        return True

    async def _reconcile(self) -> None:
        try:
            await self.reconcile()
        except (KubeletUnavailableError, OSError) as error:
            if not self.problem:
                _log.warning("cannot reconcile folders error=%r", str(error))
            self.problem = str(error)
        else:
            self.problem = ""

    async def reconcile(self) -> None:
        """Make the folders match the kubelet's records.

        Raises:
            KubeletUnavailableError: the kubelet does not answer; nothing was changed.
            OSError: a folder cannot be written.
        """
        present, generations = self._folders.keys(), self._folders.generations()
        listing = await self._records.list()
        self._remove_abandoned(set(present) - {container_key(holder.ids) for holder in listing.holders})
        for holder in listing.holders:
            await self.record_holder(holder, generations)

    def _remove_abandoned(self, missing: Collection[str]) -> None:
        """Remove abandoned folders among those that the kubelet names no holder for.

        A kubelet that has just started names no holders at all.
        """
        now = time.monotonic()
        self._missing_since = {key: self._missing_since.get(key, now) for key in missing}
        running = self._running_pods() if missing else ()
        for key in sorted(missing):
            record = self._folders.record(key)
            if record is None:
                abandoned = self._folders.age_seconds(key) >= self._timing.admission
            elif not record.pod_uid:
                abandoned = now - self._missing_since[key] >= self._timing.unnamed
            else:
                abandoned = record.pod_uid not in running
            if abandoned:
                _log.info("container released its ids key=%s", key)
                self._folders.remove(key)

    async def record_holder(self, holder: Holder, generations: Generations, *, starts: bool = False) -> str:
        """Write the record of a container, as far as it is known. Return its key.

        Args:
            holder: the holder of the ids, by the kubelet's records.
            generations: the folders' `generations()` from before the kubelet was asked.
            starts: whether the container is about to start.
        """
        key = container_key(holder.ids)
        known = self._folders.record(key)
        record = record_of(holder, await self._pod_info(holder, known, starts), self._inventory.value)
        if known is None or _same_container(known, record):
            record = record.model_copy(update={"interposer": self._folders.interposer(key)})
        if self._folders.generation(key) != generations.get(key, 0):
            # The key went to another container meanwhile: what was learned is not about that one.
            return key
        if known is not None and known.pod_uid and not record.pod_uid and _same_container(known, record):
            # Nothing better is known now; the existing record stays.
            return key
        if self._folders.write(record):
            _log.info(
                "container recorded key=%s container=%s/%s/%s shares=%r",
                key,
                holder.namespace,
                holder.pod,
                holder.container,
                record.shares,
            )
        return key

    async def pod_of(self, holder: Holder, *, refresh: bool) -> PodInfo | None:
        """Return what is known of a container's pod; None if it is unknown.

        Args:
            holder: the holder of the ids.
            refresh: whether to read the pod from the API server.
        """
        return await self._pod_info(holder, None, starts=refresh)

    def minimum_enforcement(self, holder: Holder, pod: PodInfo | None) -> str | None:
        """Return the level that a container's pod demands; empty if it demands none, None if that is unknown.

        Args:
            holder: the container.
            pod: what is known of its pod now. Without it, the container's record counts: it is of this container, because a folder
                is created again for another.
        """
        if pod is not None:
            return pod.minimum_enforcement
        if not self._pods.configured:
            return ""  # nobody can demand anything
        record = self._folders.record(container_key(holder.ids))
        is_its_own = record is not None and (record.namespace, record.pod) == (holder.namespace, holder.pod)
        return record.minimum_enforcement if record is not None and is_its_own and record.pod_uid else None

    async def _pod_info(self, holder: Holder, known: ContainerRecord | None, starts: bool) -> PodInfo | None:
        """Return the pod's information, never that of an earlier pod of the same name.

        If the container is about to start, the API server is asked, because the view may lag behind the
        kubelet's. The same holds for a pod that has ended in the view but holds ids. Either it has just
        ended, and its record exists and stays, or a new pod of its name is missing in the view.
        """
        info = self._pods.pods.get((holder.namespace, holder.pod))
        is_of_it = info is not None and known is not None and known.pod_uid == info.uid
        if info is not None and not starts and (is_of_it or not info.ended):
            return info
        try:
            return await self._pods.fetch((holder.namespace, holder.pod), self._timing.pod_read)
        except APIUnavailableError as error:
            _log.warning("cannot read pod pod=%s/%s error=%r", holder.namespace, holder.pod, str(error))
            return None if info is None or info.ended else info


def record_of(holder: Holder, pod: PodInfo | None, inventory: Inventory | None) -> ContainerRecord:
    """Build a container's record.

    Args:
        holder: what the kubelet knows of the container.
        pod: what the API server knows of its pod; None: nothing.
        inventory: the node's GPUs; None while they are unknown.
    """
    base = ContainerRecord(
        key=container_key(holder.ids),
        namespace=holder.namespace,
        pod=holder.pod,
        container=holder.container,
        device_ids=tuple(sorted(holder.ids)),
        shares=shares_of(sorted(holder.ids)),
    )
    if pod is None:
        return base
    exclusive = pod.wants_exclusive_use and _holds_all_ids(base.shares, inventory)
    return base.model_copy(
        update={
            "pod_uid": pod.uid,
            "job": pod.job,
            "job_uid": pod.job_uid,
            "rank": pod.rank,
            "attempt": pod.attempt,
            "template_hash": pod.template_hash,
            "spans_gpus": pod.spans_gpus or len(base.shares) > 1,
            "sharing": "Exclusive" if exclusive else "Lanes",
            "profile": pod.profile,
            "minimum_enforcement": pod.minimum_enforcement,
        }
    )


def _holds_all_ids(shares: Mapping[str, int], inventory: Inventory | None) -> bool:
    """Return whether a container holds all that its GPUs offer, so that no other holds a part of them."""
    offers = {gpu.uuid: gpu.allocatable_percent for gpu in inventory.gpus} if inventory else {}
    return all(uuid in offers and percent >= offers[uuid] for uuid, percent in shares.items())


def _same_container(first: ContainerRecord, other: ContainerRecord) -> bool:
    return (first.namespace, first.pod, first.container) == (other.namespace, other.pod, other.container)
