"""Reading from the API server what a watch may have missed.

Everything is listed when a replica begins to lead, and again every few minutes; a single job is read anew when a write about it
conflicted, or ended with nobody knowing how.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laneway.api.names import JOB_LABEL, JOB_UID_LABEL
from laneway.operator.apiserver import ApiError, ApiServer
from laneway.operator.cache import ClusterCache, Store, key_of
from laneway.operator.records.job_record import JobRecord
from laneway.operator.resources import PODS, TRAINING_JOBS, WATCHED, Resource

_PAGE = 250

LABEL_SELECTORS = {PODS: JOB_LABEL}
"""What is watched of a kind: of pods only the workers."""


async def relist(api: ApiServer, cache: ClusterCache) -> bool:
    """Bring the whole cache up to date; return whether anything was new.

    Raises:
        ApiError, UnknownOutcome
    """
    changed = False
    for resource in WATCHED:
        selector = LABEL_SELECTORS.get(resource, "")
        changed |= await _take_list(api, cache.store(resource), resource, selector, _everything)
    return changed


async def refresh_job(api: ApiServer, cache: ClusterCache, job: JobRecord) -> None:
    """Bring one job and its pods up to date.

    Raises:
        ApiError, UnknownOutcome
    """
    selector = f"{JOB_UID_LABEL}={job.uid}"
    await _take_list(api, cache.pods, PODS, selector, _of(job.uid), job.namespace)
    try:
        current = await api.request("GET", TRAINING_JOBS.path(job.namespace, job.name))
    except ApiError as error:
        if error.status != 404:
            raise
        cache.jobs.forget({"namespace": job.namespace, "name": job.name, "uid": job.uid})
    else:
        cache.jobs.observe(current)


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


def _everything(_: Any) -> bool:
    return True


def _of(job_uid: str) -> Callable[[Any], bool]:
    return lambda pod: bool(pod.job_uid == job_uid)


async def _take_list(
    api: ApiServer,
    store: Store[Any],
    resource: Resource,
    label_selector: str,
    among: Callable[[Any], bool],
    namespace: str | None = None,
) -> bool:
    """Have a store take note of a list, page by page: all of it at once would be the most that the operator ever has in memory."""
    changed = False
    listed = set()
    query = {"limit": str(_PAGE)}
    if label_selector:
        query["labelSelector"] = label_selector
    while True:
        page = await api.request("GET", resource.path(namespace), query=query)
        for item in page.get("items") or ():
            changed |= store.observe({"kind": resource.kind, **item})
            listed.add(key_of(item["metadata"]))
        following = (page.get("metadata") or {}).get("continue")
        if not following:
            return store.sweep(listed, int(page["metadata"]["resourceVersion"]), among=among) or changed
        query["continue"] = following
