"""Reading from the API server what a watch may have missed.

Everything is listed when a replica begins to lead, and again every few minutes; a single job, or a GPUNode, is read again
when a write to it conflicted, or had an unknown outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from laneway.api.names import JOB_LABEL, JOB_UID_LABEL
from laneway.operator.state.cache import ClusterCache, Store, key_of
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.worker_pod import WorkerPod, parse_worker_pod
from laneway.operator.state.resources import GPU_NODES, PODS, TRAINING_JOBS, WATCHED, Resource
from laneway.operator.watch.apiserver import ApiError, ApiServer, Raw

_PAGE = 250

LABEL_SELECTORS = {PODS: JOB_LABEL}
"""What is watched of a kind: of pods only the workers."""


class ListedThePast(Exception):  # noqa: N818 - it says what was seen
    """A list is older than it may be."""


async def relist(api: ApiServer, cache: ClusterCache, not_before: int = 0) -> bool:
    """Bring the whole cache up to date; return whether anything was new.

    Args:
        api: where to list.
        cache: what to bring up to date.
        not_before: the oldest resource version that a list may show.

    Raises:
        ApiError, UnknownOutcome
        ListedThePast: a list is older than that.
    """
    changed = False
    for resource in WATCHED:
        for namespace in api.scopes(resource):
            listed = await _list_kind(api, cache.store(resource), resource, namespace)
            if listed.version < not_before:
                raise ListedThePast(
                    f"the list of {resource.plural} is of version {listed.version}, older than {not_before}"
                )
            changed |= listed.changed
    return changed


async def list_kind(api: ApiServer, store: Store[Any], resource: Resource, namespace: str | None) -> int:
    """Bring one kind of objects up to date, in one namespace or (None) in all; return the version of the list.

    Raises:
        ApiError, UnknownOutcome
    """
    return (await _list_kind(api, store, resource, namespace)).version


async def refresh_job(api: ApiServer, cache: ClusterCache, job: JobRecord) -> None:
    """Bring one job and its pods up to date.

    Raises:
        ApiError, UnknownOutcome
    """
    pods, jobs = cache.pods, cache.jobs
    await _take_list(
        api, pods, PODS, {"labelSelector": f"{JOB_UID_LABEL}={job.uid}"}, _of(job.uid), job.namespace
    )
    # A list has a version, a missing object has none. So a late answer does not hide a newer job.
    this = {"fieldSelector": f"metadata.name={job.name}"}
    await _take_list(api, jobs, TRAINING_JOBS, this, lambda record: record.key == job.key, job.namespace)


async def refresh_gpu_node(api: ApiServer, cache: ClusterCache, name: str) -> None:
    """Bring what is known of one node's GPUs up to date.

    Raises:
        ApiError, UnknownOutcome
    """
    this = {"fieldSelector": f"metadata.name={name}"}
    await _take_list(api, cache.gpu_nodes, GPU_NODES, this, lambda record: record.name == name)


async def unchanged(api: ApiServer, cache: ClusterCache, pods: Iterable[WorkerPod]) -> bool:
    """Read workers again; return whether each still exists, and has neither ended nor been deleted since.

    Raises:
        ApiError, UnknownOutcome
    """

    async def same(pod: WorkerPod) -> bool:
        try:
            raw = await api.request("GET", PODS.path(pod.namespace, pod.name))
        except ApiError as error:
            if error.status != 404:
                raise
            return False  # no version says when it was not there, so this must not update the cache
        cache.pods.observe({"kind": PODS.kind, **raw})
        try:
            now = parse_worker_pod(raw)
        except (KeyError, ValueError, TypeError, AttributeError):
            return False  # it was changed into something else; the cache has left it out
        return (now.uid, now.ended, now.deleting) == (pod.uid, pod.ended, pod.deleting)

    return all(await asyncio.gather(*(same(pod) for pod in pods)))


async def find_job_uid(api: ApiServer, namespace: str, name: str) -> str | None:
    """Return the uid of the job of that name as it is now; None where there is none.

    Raises:
        ApiError, UnknownOutcome
    """
    try:
        return str((await api.request("GET", TRAINING_JOBS.path(namespace, name)))["metadata"]["uid"])
    except ApiError as error:
        if error.status != 404:
            raise
        return None


async def is_alive(api: ApiServer, job: JobRecord) -> bool:
    """Return whether this job exists and is not being deleted.

    Raises:
        ApiError, UnknownOutcome
    """
    try:
        metadata = (await api.request("GET", TRAINING_JOBS.path(job.namespace, job.name)))["metadata"]
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return metadata["uid"] == job.uid and "deletionTimestamp" not in metadata


def _of(job_uid: str) -> Callable[[Any], bool]:
    return lambda pod: bool(pod.job_uid == job_uid)


@dataclass(frozen=True, slots=True)
class _Listed:
    changed: bool
    version: int


async def _list_kind(api: ApiServer, store: Store[Any], resource: Resource, namespace: str | None) -> _Listed:
    selector = {"labelSelector": LABEL_SELECTORS[resource]} if resource in LABEL_SELECTORS else {}
    return await _take_list(api, store, resource, selector, None, namespace)


async def _take_list(
    api: ApiServer,
    store: Store[Any],
    resource: Resource,
    selector: Mapping[str, str],
    among: Callable[[Any], bool] | None,
    namespace: str | None = None,
) -> _Listed:
    """Have a store take note of a list, page by page."""
    changed, version = False, 0
    listed = set()
    async for page in _pages(api, resource, selector, namespace):
        for item in page.get("items") or ():
            changed |= store.observe({"kind": resource.kind, **item})
            listed.add(key_of(item["metadata"]))
        version = int(page["metadata"]["resourceVersion"])
    return _Listed(store.sweep(listed, version, among=among, namespace=namespace) or changed, version)


async def _pages(
    api: ApiServer, resource: Resource, selector: Mapping[str, str], namespace: str | None = None
) -> AsyncIterator[Raw]:
    """Yield a list page by page: a whole list would be the peak of the operator's memory."""
    query = {"limit": str(_PAGE), **selector}
    while True:
        page = await api.request("GET", resource.path(namespace), query=query)
        yield page
        following = (page.get("metadata") or {}).get("continue")
        if not following:
            return
        query["continue"] = following
