"""Keeps the containers' folders true to the kubelet's records: who holds ids has a folder that names it, who lost them
has none.

Nothing here remembers: after a kill at any moment the next comparison rebuilds all of it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from laneway.api import names
from laneway.api.container_record import ContainerRecord
from laneway.api.device_ids import container_key, shares_of
from laneway.device_plugin.container_folders import ContainerFolders
from laneway.device_plugin.kubelet_records import Holder, KubeletAwayError, KubeletRecords
from laneway.device_plugin.living_pods import pods_with_processes
from laneway.device_plugin.node_pods import ApiAwayError, NodePods
from laneway.device_plugin.pod_facts import PodFacts

_log = logging.getLogger(__name__)

Lives = Mapping[str, int]
"""Which container each key stands for (`ContainerFolders.lives`)."""


@dataclass(frozen=True)
class Timing:
    """How often and how long; all in seconds."""

    interval: float = 4.0
    """Between comparisons when nothing happens. The agent keeps the sessions of a container whose folder somebody wiped for
    10 s, so that it can be put back meanwhile."""
    settle: float = 0.2
    """From an event to the comparison: events come in bursts."""
    echo: float = 2.0
    """From that comparison to the next: the kubelet books the end of a pod a little after it reports it."""
    admission: float = 30.0
    """For so long a folder may exist that no record names: the kubelet books ids after `Allocate`."""
    unnamed: float = 10.0
    """For so long a container must be missing in the records that is not known by its pod's uid, and so not by its processes."""
    pod_read: float = 2.0
    """For asking the API server about one pod."""


class ShareManager:
    """Compares the kubelet's records with the folders and mends the folders."""

    def __init__(
        self,
        folders: ContainerFolders,
        records: KubeletRecords,
        pods: NodePods,
        timing: Timing | None = None,
        living: Callable[[], Collection[str]] = pods_with_processes,
    ) -> None:
        """``living`` tells the uids of the pods that have processes."""
        self.problem = ""
        self._folders = folders
        self._records = records
        self._pods = pods
        self._timing = timing or Timing()
        self._living = living
        self._missing_since: dict[str, float] = {}
        self._poked = asyncio.Event()

    def poke(self) -> None:
        """Compare soon: something happened."""
        self._poked.set()

    async def run(self) -> None:
        """Compare now, after each poke and every interval, until cancelled."""
        self._folders.sweep()
        pause = 0.0
        while True:
            if await self._poked_within(pause):
                await asyncio.sleep(self._timing.settle)
                pause = self._timing.echo
            else:
                pause = self._timing.interval
            self._poked.clear()
            await self._reconcile()

    async def _poked_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(
                seconds
            ):  # asyncio.wait_for loses a cancellation that comes with the poke
                await self._poked.wait()
        except TimeoutError:
            return False
        return True

    async def _reconcile(self) -> None:
        try:
            await self.reconcile()
        except (KubeletAwayError, OSError) as error:
            if not self.problem:
                _log.warning("folders are left as they are: %s", error)
            self.problem = str(error)
        else:
            self.problem = ""

    async def reconcile(self) -> None:
        """Make the folders say what the kubelet says.

        Raises:
            KubeletAwayError: the kubelet does not answer; nothing was changed.
            OSError: a folder cannot be written.
        """
        present, lives = self._folders.keys(), self._folders.lives()
        listing = await self._records.list()
        self._remove_abandoned(set(present) - {container_key(holder.ids) for holder in listing.holders})
        for holder in listing.holders:
            await self.write_down(holder, lives)

    def _remove_abandoned(self, missing: Collection[str]) -> None:
        """Remove folders that were there before the kubelet was asked, and that it names no holder for, if they are nobody's.

        A kubelet that has just started names nobody at all.
        """
        now = time.monotonic()
        self._missing_since = {key: self._missing_since.get(key, now) for key in missing}
        living = self._living() if missing else ()
        for key in sorted(missing):
            record = self._folders.record(key)
            if record is None:
                abandoned = self._folders.age_seconds(key) >= self._timing.admission
            elif not record.pod_uid:
                abandoned = now - self._missing_since[key] >= self._timing.unnamed
            else:
                abandoned = record.pod_uid not in living
            if abandoned:
                _log.info("container %s gave its ids back", key)
                self._folders.remove(key)

    async def write_down(self, holder: Holder, lives: Lives, *, starts: bool = False) -> str:
        """Write down who a container is, as far as it can be learnt; return its key.

        Args:
            holder: who holds the ids, by the kubelet's records.
            lives: the folders' `lives()` from before the kubelet was asked.
            starts: the container is just about to start.
        """
        key = container_key(holder.ids)
        known = self._folders.record(key)
        record = record_of(holder, await self._facts(holder, known, starts))
        if self._folders.life(key) != lives.get(key, 0):
            # It went to another container meanwhile: what was learnt says nothing about that one.
            return key
        if known is not None and known.pod_uid and not record.pod_uid and _same_place(known, record):
            # Nothing better can be learnt now; what is there stays.
            return key
        if self._folders.write(record):
            _log.info(
                "container %s is %s/%s/%s with %s",
                key,
                holder.namespace,
                holder.pod,
                holder.container,
                record.shares,
            )
        return key

    async def pod_of(self, holder: Holder, *, ask: bool) -> PodFacts | None:
        """Return what is known of a container's pod; None where it is not known.

        Args:
            holder: who holds the ids.
            ask: the pod has not been asked for at the API server just now.
        """
        return await self._facts(holder, None, starts=ask)

    async def _facts(self, holder: Holder, known: ContainerRecord | None, starts: bool) -> PodFacts | None:
        """Return the pod's facts; those of a former pod of the same name do not count.

        Who is about to start is asked for at the API server, because the view may lag behind the kubelet's. So is a pod
        that has ended in our view, though it holds ids: either it just ended (then its record is there already and stays)
        or it was followed by another of its name that we have not seen yet.
        """
        facts = self._pods.pods.get((holder.namespace, holder.pod))
        is_of_it = facts is not None and known is not None and known.pod_uid == facts.uid
        if facts is not None and not starts and (is_of_it or not facts.ended):
            return facts
        try:
            return await self._pods.fetch((holder.namespace, holder.pod), self._timing.pod_read)
        except ApiAwayError as error:
            _log.warning("pod %s/%s is not known yet: %s", holder.namespace, holder.pod, error)
            return None if facts is None or facts.ended else facts


def record_of(holder: Holder, pod: PodFacts | None) -> ContainerRecord:
    """Return what is written about a container; without the pod's facts only what the kubelet knows."""
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
    exclusive = pod.annotations.get(names.SHARING_ANNOTATION) == "Exclusive"
    return base.model_copy(
        update={
            "pod_uid": pod.uid,
            "job": pod.job,
            "job_uid": pod.labels.get(names.JOB_UID_LABEL, ""),
            "rank": pod.rank,
            "attempt": pod.attempt,
            "template_hash": pod.annotations.get(names.TEMPLATE_HASH_ANNOTATION, ""),
            "spans_gpus": pod.annotations.get(names.SPANS_GPUS_ANNOTATION) == "true" or len(base.shares) > 1,
            "sharing": "Exclusive" if exclusive else "Lanes",
            "profile": pod.profile,
            "minimum_enforcement": pod.minimum_enforcement,
        }
    )


def _same_place(one: ContainerRecord, other: ContainerRecord) -> bool:
    return (one.namespace, one.pod, one.container) == (other.namespace, other.pod, other.container)
