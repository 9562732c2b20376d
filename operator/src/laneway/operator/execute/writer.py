"""The only place that writes to the cluster.

Every write passes the fence first: a replica whose lease may have expired writes nothing. Each write also carries a
precondition, so that a request sent late by a suspended process does no harm: a status write has the object's resource
version, a deletion has the pod's uid, and a creation has a name that can exist only once. Objects that must be new are created,
because a server-side apply would silently take over a foreign pod or one of the last attempt. Statuses and orders are applied.

The answer to a write goes into the cache at once, so the next cycle sees its own intents before the watch does.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from laneway.api.names import GANG_SERVICE, JOB_UID_LABEL, OPERATOR_FIELD_MANAGER
from laneway.api.training_job_status import TrainingJobStatus
from laneway.operator.cycle.cpu_resizes import ResizeWrite
from laneway.operator.cycle.node_orders import NodeWrite
from laneway.operator.cycle.templates import ProfileWrite
from laneway.operator.execute.manifests import gang_service, owner_reference
from laneway.operator.lifecycle.refusals import BEING_REMOVED, blames_object, is_refusal
from laneway.operator.metrics import Metrics
from laneway.operator.pacing import BETWEEN_EVENTS_SECONDS, MANY_STARTS
from laneway.operator.state.cache import ClusterCache
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.ownership import Claim, claim_of
from laneway.operator.state.records.profile_record import ProfileRecord
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.operator.state.resources import (
    EVENTS,
    GPU_NODES,
    LEASES,
    PODS,
    SERVICES,
    TRAINING_JOBS,
    TRAINING_PROFILES,
    Resource,
)
from laneway.operator.watch.apiserver import (
    APPLY_PATCH,
    STRATEGIC_MERGE_PATCH,
    ApiError,
    ApiServer,
    Raw,
    UnknownOutcome,
)
from laneway.operator.watch.discovery import may, serves
from laneway.operator.watch.relist import is_alive

logger = logging.getLogger(__name__)

_EVENT_QUEUE_LENGTH = 10_000
_BETWEEN_DROPS_SECONDS = 0.2
_REQUEST_SECONDS = 10.0
_SERVICE_FIELDS = ("clusterIP", "publishNotReadyAddresses", "selector")


class FencedOff(Exception):  # noqa: N818 - it says what is the case; nothing went wrong here
    """This replica is not, or may soon not be, the one that acts."""


class Refused(Exception):  # noqa: N818 - the API server did what it should
    """The API server does not take an object, and will not before something else changes. The text is for the user."""


class NotResized(Enum):
    """Why the CPUs of a pod were not changed."""

    NOT_SERVED = auto()
    """The API server has no subresource for it."""

    NOT_PERMITTED = auto()
    """The operator has no permission for it in that namespace."""

    REFUSED = auto()
    """A rule, such as of a quota, refuses this pod these CPUs."""

    POD_GONE = auto()
    """The pod is gone, or another has its name."""

    FAILED = auto()
    """The API server could not do it now."""


class Writer:
    """Writes for the replica that holds the lease."""

    def __init__(
        self, api: ApiServer, cache: ClusterCache, metrics: Metrics, seconds_left: Callable[[], float]
    ) -> None:
        """Write while ``seconds_left`` of the lease is above zero."""
        self._api = api
        self._cache = cache
        self._metrics = metrics
        self._seconds_left = seconds_left
        self._events: deque[Raw] = deque()
        self._recorded = asyncio.Event()

    async def write_status(self, job: JobRecord, status: TrainingJobStatus) -> bool:
        """Apply a job's status, unless the job has changed since it was read; return whether something newer is known of it already.

        Raises:
            ApiError: with status 409 when the job has changed, 404 when it is gone.
            FencedOff, UnknownOutcome
        """
        body = {
            "apiVersion": TRAINING_JOBS.api_version,
            "kind": TRAINING_JOBS.kind,
            "metadata": {
                "name": job.name,
                "namespace": job.namespace,
                "uid": job.uid,
                "resourceVersion": job.resource_version,
            },
            "status": status.to_json(),
        }
        answer = await self._send(
            "apply",
            TRAINING_JOBS,
            "PATCH",
            TRAINING_JOBS.path(job.namespace, job.name, "status"),
            query={"fieldManager": OPERATOR_FIELD_MANAGER, "force": "true"},
            body=body,
            content_type=APPLY_PATCH,
        )
        self._cache.jobs.observe(answer)
        return not self._cache.jobs.is_newest(answer)

    async def create_pod(self, job: JobRecord, manifest: Raw) -> None:
        """Create a worker's pod; a pod of that name that is there already is put into the cache.

        Raises:
            Refused: the API server does not take it, or its name belongs to somebody else.
            ApiError, FencedOff, UnknownOutcome
        """
        try:
            pod = await self._create(PODS, job.namespace, manifest)
        except ApiError as error:
            if error.status != 409 or error.reason != "AlreadyExists":
                raise
            pod = await self._existing_pod(job, manifest["metadata"]["name"])
        self._cache.pods.observe(pod)

    async def adopt_pod(self, job: JobRecord, pod: WorkerPod) -> None:
        """Make a job the controller of a pod that has none. The API server refuses it where the pod is another meanwhile, or has one.

        Raises:
            ApiError: with status 404 or 409 when the pod is gone or another is in its place, 422 when it has a controller.
            FencedOff, UnknownOutcome
        """
        answer = await self._send(
            "adopt",
            PODS,
            "PATCH",
            PODS.path(job.namespace, pod.name),
            query={"fieldManager": OPERATOR_FIELD_MANAGER},
            body={"metadata": {"uid": pod.uid, "ownerReferences": [owner_reference(job)]}},
            content_type=STRATEGIC_MERGE_PATCH,
        )
        self._cache.pods.observe(answer)

    async def resize_pod(self, write: ResizeWrite) -> None:
        """Change the CPUs of a worker's trainer in place, unless another pod has its name meanwhile.

        Raises:
            ApiError: with status 404 where the pod is gone, or the API server cannot resize pods.
            FencedOff, UnknownOutcome
        """
        pod, cpus = write.pod, {"requests": {"cpu": f"{write.cpu_millis}m"}}
        if write.limit_millis is not None:
            cpus["limits"] = {"cpu": f"{write.limit_millis}m"}
        answer = await self._send(
            "resize",
            PODS,
            "PATCH",
            PODS.path(pod.namespace, pod.name, "resize"),
            query={"fieldManager": OPERATOR_FIELD_MANAGER},
            body={
                "metadata": {"uid": pod.uid},
                "spec": {"containers": [{"name": write.container, "resources": cpus}]},
            },
            content_type=STRATEGIC_MERGE_PATCH,
        )
        self._cache.pods.observe(answer)

    async def why_not_resized(self, namespace: str, error: ApiError) -> NotResized:
        """Return what an answer to :meth:`resize_pod` means. Its status code and reason do not tell, so the API server is asked.

        Raises:
            ApiError, UnknownOutcome
        """
        if error.status == 405:
            return NotResized.NOT_SERVED
        if error.status == 404:
            served = await serves(self._api, "/api/v1", "pods/resize")
            return NotResized.POD_GONE if served else NotResized.NOT_SERVED
        if error.status == 409:
            return NotResized.POD_GONE
        if error.status == 403 and not await may(self._api, namespace, "patch", "pods", "resize"):
            return NotResized.NOT_PERMITTED
        return NotResized.REFUSED if error.status in (400, 403, 422) else NotResized.FAILED

    async def try_pod(self, job: JobRecord, manifest: Raw) -> str:
        """Ask whether a worker's pod would be taken, and create nothing; return what is wrong with it, empty if nothing is, or
        nothing that does not pass by itself.

        Raises:
            ApiError, FencedOff, UnknownOutcome
        """
        query = {"fieldManager": OPERATOR_FIELD_MANAGER, "dryRun": "All"}
        try:
            await self._send("try", PODS, "POST", PODS.path(job.namespace), query=query, body=manifest)
        except ApiError as error:
            if blames_object(error.status, error.message):
                return error.message
            if not is_refusal(error.status, error.message) and error.status >= 500:
                raise
        return ""

    async def ensure_gang_service(self, namespace: str) -> None:
        """Create the Service of a namespace's gangs, if it is not there.

        Raises:
            Refused: the API server does not take it, or its name belongs to somebody else.
            ApiError, FencedOff, UnknownOutcome
        """
        # A quota of Services that is used up refuses a creation before anybody looks whether there is something to create.
        wanted = gang_service(namespace)
        try:
            found = await self._api.request("GET", SERVICES.path(namespace, GANG_SERVICE))
        except ApiError as error:
            if error.status != 404:
                raise
            found = await self._create(SERVICES, namespace, wanted)
        spec = found["spec"]
        if any(spec.get(field) != wanted["spec"][field] for field in _SERVICE_FIELDS):
            raise Refused(
                f"the Service {GANG_SERVICE} of this namespace is not as gangs need it to find each other: rename it if it is "
                "yours, else delete it, and Laneway makes it again"
            )

    async def write_orders(self, write: NodeWrite) -> None:
        """Apply the operator's orders to a node, unless its object has changed since it was read.

        Raises:
            ApiError: with status 409 when it has, 404 when it is gone.
            FencedOff, UnknownOutcome
        """
        node = write.node
        version = self._cache.gpu_nodes.version_of(("", node.name), node)
        orders = [order.to_json() for order in write.orders]
        body = {
            "apiVersion": GPU_NODES.api_version,
            "kind": GPU_NODES.kind,
            "metadata": {"name": node.name, "resourceVersion": version or node.resource_version},
            "spec": {"orders": orders},
        }
        answer = await self._send(
            "apply",
            GPU_NODES,
            "PATCH",
            GPU_NODES.path(name=node.name),
            query={"fieldManager": OPERATOR_FIELD_MANAGER, "force": "true"},
            body=body,
            content_type=APPLY_PATCH,
        )
        self._cache.gpu_nodes.observe(answer)

    async def write_profile(self, write: ProfileWrite) -> None:
        """Apply a template's profile, unless it has changed since it was read.

        Raises:
            ApiError: with status 409 when it has, 404 when it is gone, 403 when the namespace does not take it.
            FencedOff, UnknownOutcome
        """
        metadata = {"name": write.name, "namespace": write.namespace}
        if (before := write.before) is not None:
            version = self._cache.profiles.version_of((write.namespace, write.name), before)
            metadata |= {"uid": before.uid, "resourceVersion": version or before.resource_version}
        body = {
            "apiVersion": TRAINING_PROFILES.api_version,
            "kind": TRAINING_PROFILES.kind,
            "metadata": metadata,
            "status": write.status.to_json(),
        }
        answer = await self._send(
            "apply",
            TRAINING_PROFILES,
            "PATCH",
            TRAINING_PROFILES.path(write.namespace, write.name),
            query={"fieldManager": OPERATOR_FIELD_MANAGER, "force": "true"},
            body=body,
            content_type=APPLY_PATCH,
        )
        self._cache.profiles.observe(answer)

    async def delete_profile(self, profile: ProfileRecord) -> None:
        """Delete a template's profile.

        Raises:
            ApiError, FencedOff, UnknownOutcome
        """
        await self._delete_if_there(TRAINING_PROFILES, profile.namespace, profile.name, profile.uid)
        self._cache.profiles.forget(
            {"namespace": profile.namespace, "name": profile.name, "uid": profile.uid}
        )

    async def delete_pod(self, pod: WorkerPod, *, force: bool = False) -> None:
        """Ask for the pod's end, with its own grace period; with ``force`` remove it at once, whatever its node says.

        Raises:
            ApiError, FencedOff, UnknownOutcome
        """
        metadata = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        try:
            options = {"gracePeriodSeconds": 0} if force else {}
            answer = await self._delete(PODS, pod.namespace, pod.name, pod.uid, **options)
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            self._cache.pods.forget(metadata)  # it is gone, or another is in its place
            return
        # If another deletion removed the pod meanwhile, the answer is the object about to be stored, without a version.
        if answer.get("kind") == PODS.kind and answer["metadata"].get("resourceVersion"):
            self._cache.pods.observe(answer)
        else:
            self._cache.pods.forget(metadata)

    async def delete_job(self, job: JobRecord) -> None:
        """Delete an ended job; the garbage collector takes its pods.

        Raises:
            ApiError, FencedOff, UnknownOutcome
        """
        await self._delete_if_there(TRAINING_JOBS, job.namespace, job.name, job.uid)

    def record(self, event: Raw) -> None:
        """Have an event written soon. Events are for people: when too many wait, new ones are left out and the log says so."""
        if len(self._events) >= _EVENT_QUEUE_LENGTH:
            logger.warning("too many events wait to be written; left out: %s", event.get("note"))
            return
        self._events.append(event)
        self._recorded.set()

    async def write_events(self, under_way: Callable[[], int]) -> None:
        """Write recorded events, one after another, until cancelled.

        Args:
            under_way: returns the number of jobs with writes in flight. While it is high, events are written at a lower rate:
                each costs the API server as much as the write that it reports.
        """
        while True:
            await self._recorded.wait()
            self._recorded.clear()
            while self._events:
                many = under_way() > MANY_STARTS
                await asyncio.sleep(_BETWEEN_DROPS_SECONDS if many else BETWEEN_EVENTS_SECONDS)
                await self._write_first_event()

    async def write_last_events(self, seconds: float) -> None:
        """Write what is left, within some time: this replica ends, and no other knows what it has just done."""
        try:
            async with asyncio.timeout(seconds):
                while self._events:
                    await self._write_first_event()
        except TimeoutError:
            logger.warning("%d events were not written before the end", len(self._events))

    async def _write_first_event(self) -> None:
        """Write the first event in the queue. If cancelled, the event stays first: a second write of it is
        refused, because its name exists already."""
        event = self._events[0]
        path = EVENTS.path(event["metadata"]["namespace"])
        try:
            await self._send("create", EVENTS, "POST", path, body=event)
        except (ApiError, UnknownOutcome, FencedOff) as error:
            if not isinstance(error, ApiError) or error.status != 409:
                logger.warning("an event was not written: %s", error, extra={"note": event.get("note")})
        self._events.popleft()

    async def put_lease(self, lease: Raw, *, new: bool) -> Raw:
        """Create or replace the lease. Alone of all writes this one is not fenced: it is how a replica becomes the leader.

        Raises:
            ApiError: with status 409 when another replica was faster.
            UnknownOutcome
        """
        namespace, name = lease["metadata"]["namespace"], lease["metadata"]["name"]
        query = {"fieldManager": OPERATOR_FIELD_MANAGER}
        if new:
            return await self._counted(
                "create", LEASES, "POST", LEASES.path(namespace), query=query, body=lease
            )
        return await self._counted(
            "update", LEASES, "PUT", LEASES.path(namespace, name), query=query, body=lease
        )

    async def _create(self, resource: Resource, namespace: str, manifest: Raw) -> Raw:
        """Create an object.

        Raises:
            Refused: the API server does not take it.
            ApiError, FencedOff, UnknownOutcome
        """
        query = {"fieldManager": OPERATOR_FIELD_MANAGER}
        try:
            return await self._send(
                "create", resource, "POST", resource.path(namespace), query=query, body=manifest
            )
        except ApiError as error:
            if error.status != 409 and is_refusal(error.status, error.message):
                name = manifest["metadata"]["name"]
                raise Refused(f"the API server refused {resource.kind} {name}: {error.message}") from error
            raise

    async def _existing_pod(self, job: JobRecord, name: str) -> Raw:
        """Settle what becomes of a pod of that name that is there already."""
        found = await self._api.request("GET", PODS.path(job.namespace, name))
        claim = claim_of(found["metadata"], job.name, job.uid)
        ours = claim in (Claim.OWNED, Claim.ADOPTABLE)
        if ours and (found["metadata"].get("labels") or {}).get(JOB_UID_LABEL) == job.uid:
            return found
        if claim is Claim.FOREIGN:
            raise Refused(
                f"there is a Pod named {name} already, which does not belong to this job: delete it, or give "
                "the job another name"
            )
        if not await is_alive(self._api, job):
            raise ApiError(409, "Conflict", f"{job.key} is not there any more, or another is in its place")
        await self._delete(PODS, job.namespace, name, found["metadata"]["uid"])
        what = "of this job, which has lost its labels," if ours else "of an earlier job of this name"
        raise Refused(f"the pod {name} {what} {BEING_REMOVED}")

    async def _delete_if_there(self, resource: Resource, namespace: str, name: str, uid: str) -> None:
        try:
            await self._delete(resource, namespace, name, uid)
        except ApiError as error:
            if error.status not in (404, 409):  # it is gone, or another is in its place
                raise

    async def _delete(self, resource: Resource, namespace: str, name: str, uid: str, **more: int) -> Raw:
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
            **more,
        }
        return await self._send("delete", resource, "DELETE", resource.path(namespace, name), body=options)

    async def _send(self, verb: str, resource: Resource, method: str, path: str, **request: Any) -> Raw:
        left_seconds = self._seconds_left()
        if left_seconds <= 0:
            raise FencedOff("the lease is not held, or could not be renewed in time")
        timeout_seconds = min(_REQUEST_SECONDS, left_seconds)
        return await self._counted(verb, resource, method, path, timeout_seconds=timeout_seconds, **request)

    async def _counted(self, verb: str, resource: Resource, method: str, path: str, **request: Any) -> Raw:
        result = "error"
        try:
            answer = await self._api.request(method, path, **request)
            result = "ok"
            return answer
        except ApiError as error:
            result = "conflict" if error.status == 409 else "refused" if error.status < 500 else "error"
            raise
        except UnknownOutcome:
            result = "unknown"
            raise
        finally:
            self._metrics.api_writes.labels(verb=verb, resource=resource.plural, result=result).inc()
