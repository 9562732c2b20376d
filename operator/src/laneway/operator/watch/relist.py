"""Reading from the API server what a watch may have missed.

Everything is listed when a replica begins to lead, and again every few minutes; a single job, or a GPUNode, is read again
when a write to it conflicted, or had an unknown outcome.

A list brings the metadata alone, and only objects that the cache lacks are read: mostly it lacks none, and tens of thousands of whole
objects keep the API server busy for seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from laneway.api.job_conditions import SummaryState
from laneway.api.names import JOB_LABEL, JOB_UID_LABEL
from laneway.operator.state.cache import ClusterCache, Store, key_of
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.worker_pod import WorkerPod, parse_worker_pod
from laneway.operator.state.resources import GPU_NODES, PODS, TRAINING_JOBS, WATCHED, Resource
from laneway.operator.watch.apiserver import ApiError, ApiServer, Raw
from laneway.operator.watch.parallel import some_at_a_time

METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""What to accept where the metadata of a list's objects is enough."""

_PAGE = 250
_PAGE_OF_METADATA = 1000

_READ_SINGLY_RATIO = 0.1
"""Where the cache lacks more than this part of a list's objects, all are listed: one read costs the API server as much as ten objects of
a list."""

_BAD_REQUEST = 400

LABEL_SELECTORS = {PODS: JOB_LABEL}
"""What is watched of a kind: of pods only the workers."""


class ListedThePast(Exception):  # noqa: N818 - it says what was seen
    """A list is older than it may be."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some objects of a kind. One may leave the part without being gone."""

    fields: str
    """The field selector."""

    has: Callable[[Any], bool]
    """Whether an object is one of them."""


UNENDED_JOBS = Part(
    f"status.state!={SummaryState.COMPLETE},status.state!={SummaryState.FAILED}", lambda job: not job.finished
)


async def relist(
    api: ApiServer, cache: ClusterCache, not_before: int = 0, *, ended_jobs: bool = True
) -> None:
    """Bring the whole cache up to date.

    Args:
        api: where to list.
        cache: what to bring up to date.
        not_before: the oldest resource version that a list may show.
        ended_jobs: whether to list jobs that have ended. There may be many more of these than of others, and no decision needs them.

    Raises:
        ApiError: a list was refused; all others were made.
        UnknownOutcome
        ListedThePast: a list is older than that.
    """
    refused: ApiError | None = None
    for resource in WATCHED:
        part = UNENDED_JOBS if resource is TRAINING_JOBS and not ended_jobs else None
        for namespace in api.scopes(resource):
            try:
                version = await _list_part(api, cache.store(resource), resource, namespace, part)
            except ApiError as error:
                refused = refused or error
                continue
            if version < not_before:
                raise ListedThePast(
                    f"the list of {resource.plural} is of version {version}, older than {not_before}"
                )
    if refused is not None:
        raise refused


async def _list_part(
    api: ApiServer, store: Store[Any], resource: Resource, namespace: str | None, part: Part | None
) -> int:
    try:
        return await list_kind(api, store, resource, namespace, part)
    except ApiError as error:
        if part is None or error.status != _BAD_REQUEST:
            raise
        # The CRD is of an older Laneway, or Kubernetes is older than 1.31: no field of ours is selectable.
        return await list_kind(api, store, resource, namespace)


async def list_kind(
    api: ApiServer,
    store: Store[Any],
    resource: Resource,
    namespace: str | None,
    part: Part | None = None,
) -> int:
    """Bring one kind of objects up to date, in one namespace or (None) in all; return of which version, at least.

    Args:
        api: where to list.
        store: what to bring up to date.
        resource: the kind.
        namespace: see above.
        part: only these; None: all.

    Raises:
        ApiError, UnknownOutcome
    """
    selector = {"labelSelector": LABEL_SELECTORS[resource]} if resource in LABEL_SELECTORS else {}
    fields = {} if part is None else {"fieldSelector": part.fields}
    listed = partial(_list, api, store, resource, {**selector, **fields}, namespace)
    found = await listed(whole=not len(store))
    if len(found.lacking) > _READ_SINGLY_RATIO * len(found.keys):
        found = await listed(whole=True)
    lacking = found.lacking
    if part is None:
        store.sweep(found.keys, found.version, among=None, namespace=namespace)
    else:
        absent = store.absent(found.keys, found.version, among=part.has, namespace=namespace)
        if len(absent) > _READ_SINGLY_RATIO * len(store):
            return await list_kind(api, store, resource, namespace)
        lacking = [*lacking, *absent]
    versions = [found.version]

    async def read(key: tuple[str, str]) -> None:
        versions.append(await _refresh(api, store, resource, key, selector))

    await some_at_a_time(partial(read, key) for key in lacking)
    store.note_list(found.version, among=None if part is None else part.has, namespace=namespace)
    return min(versions)  # another API server may have answered, which lags


@dataclass(frozen=True, slots=True)
class _Listed:
    keys: set[tuple[str, str]]
    lacking: list[tuple[str, str]]
    """Those whose version in the list is newer than what is known of them."""

    version: int


async def _list(
    api: ApiServer,
    store: Store[Any],
    resource: Resource,
    selector: Mapping[str, str],
    namespace: str | None,
    *,
    whole: bool,
) -> _Listed:
    """Go through a list of whole objects, of which the store takes note, or of metadata."""
    keys, lacking, version = set(), [], 0
    query = {"limit": str(_PAGE if whole else _PAGE_OF_METADATA), **selector}
    accept = "application/json" if whole else METADATA
    async for page in pages(api, resource, query, namespace, accept):
        for item in page.get("items") or ():
            key = key_of(item["metadata"])
            keys.add(key)
            if whole:
                store.observe({"kind": resource.kind, **item})
            elif store.lacks(item["metadata"]):
                lacking.append(key)
        version = int(page["metadata"]["resourceVersion"])
    return _Listed(keys, lacking, version)


async def refresh_job(api: ApiServer, cache: ClusterCache, job: JobRecord) -> None:
    """Bring one job and its pods up to date.

    Raises:
        ApiError, UnknownOutcome
    """
    pods, jobs = cache.pods, cache.jobs
    of_job = {"labelSelector": f"{JOB_UID_LABEL}={job.uid}"}
    found = await _list(api, pods, PODS, of_job, job.namespace, whole=True)
    pods.sweep(found.keys, found.version, among=_of(job.uid), namespace=job.namespace)
    await _refresh(api, jobs, TRAINING_JOBS, (job.namespace, job.name))


async def refresh_gpu_node(api: ApiServer, cache: ClusterCache, name: str) -> None:
    """Bring what is known of one node's GPUs up to date.

    Raises:
        ApiError, UnknownOutcome
    """
    await _refresh(api, cache.gpu_nodes, GPU_NODES, ("", name))


async def _refresh(
    api: ApiServer,
    store: Store[Any],
    resource: Resource,
    key: tuple[str, str],
    selector: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Bring one object up to date; return of which version. A list has a version, a missing object has none: so a late answer does not hide a newer object."""
    namespace, name = key
    this = {"fieldSelector": f"metadata.name={name}", **selector}
    found = await _list(api, store, resource, this, namespace or None, whole=True)
    if key not in found.keys:
        store.missing(key, found.version)
    return found.version


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


async def pages(
    api: ApiServer,
    resource: Resource,
    query: Mapping[str, str],
    namespace: str | None = None,
    accept: str = "application/json",
) -> AsyncIterator[Raw]:
    """Yield a list page by page: a whole list would be the peak of the operator's memory.

    Raises:
        ApiError, UnknownOutcome
    """
    following = None
    while True:
        this = {**query, "continue": following} if following else query
        page = await api.request("GET", resource.path(namespace), query=this, accept=accept)
        yield page
        following = (page.get("metadata") or {}).get("continue")
        if not following:
            return
