"""Changes of pods' CPUs that are in flight, and what the API server said to those that it did not make."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping

from laneway.operator.cycle.cpu_resizes import ResizeWrite
from laneway.operator.execute.writer import NotResized, Writer
from laneway.operator.lifecycle.reconciled_job import JobEvent
from laneway.operator.pacing import RESIZE_RETRY_SECONDS, RESIZES_UNAVAILABLE_SECONDS
from laneway.operator.watch.apiserver import ApiError, UnknownOutcome

logger = logging.getLogger(__name__)

_REMEMBERED_REFUSALS = 10_000


class Resizes:
    """The outcome of each change; lost at a restart, after which a refused change is tried once more."""

    def __init__(self, writer: Writer, wall: Callable[[], float]) -> None:
        self._writer = writer
        self._wall = wall
        self._rest_until: dict[str, float] = {}
        """By uid of a pod: until when it is left alone; infinite while its change is in flight."""

        self._targets: dict[str, int] = {}
        """By uid of a pod that is left alone: the CPUs that its trainer was to have, in thousandths."""

        self._bounds: dict[str, tuple[float, float]] = {}
        self._unavailable = ""
        self._unavailable_until_seconds = -math.inf

    @property
    def bounds(self) -> Mapping[str, tuple[float, float]]:
        """By uid of a pod: the CPUs between which the API server has refused none; in thousandths."""
        return self._bounds

    def resting(self) -> Mapping[str, int]:
        """Return the pods that are left alone now, by uid, each with the CPUs that its trainer was to have, in thousandths."""
        now_seconds = self._wall()
        self._rest_until = {uid: at for uid, at in self._rest_until.items() if at > now_seconds}
        self._targets = {uid: self._targets[uid] for uid in self._rest_until}
        return self._targets

    def unavailable(self) -> str:
        """Return why the API server changes no pod's CPUs; empty where it does."""
        return self._unavailable if self._wall() < self._unavailable_until_seconds else ""

    def forget(self) -> None:
        """Forget the outcomes. No change may be in flight."""
        self._rest_until.clear()
        self._bounds.clear()
        self._unavailable_until_seconds = -math.inf

    def begin(self, write: ResizeWrite) -> None:
        """Note that a change is in flight."""
        self._rest_until[write.pod.uid] = math.inf
        self._targets[write.pod.uid] = write.cpu_millis

    def end(self, write: ResizeWrite) -> None:
        """Note that it has ended."""
        if math.isinf(self._rest_until.get(write.pod.uid, 0.0)):
            del self._rest_until[write.pod.uid]

    async def write(self, write: ResizeWrite) -> JobEvent | None:
        """Make a change; return what the job's user is told of it.

        Raises:
            FencedOff
        """
        pod = f"{write.pod.namespace}/{write.pod.name}"
        extra = {"pod": pod, "cpu_millis": write.cpu_millis}
        try:
            await self._writer.resize_pod(write)
        except ApiError as error:
            why = await self._why(write, error)
            if why in (NotResized.NOT_SERVED, NotResized.NOT_PERMITTED):
                self._note_unavailable(why, error)
            elif why is NotResized.REFUSED:
                logger.warning("CPUs not changed", extra={**extra, "problem": error.message})
                return self._note_refusal(write, error.message)
            elif why is NotResized.FAILED:
                self._rest(write, error)
        except UnknownOutcome as error:
            self._rest(write, error)
        else:
            logger.info("CPUs changed", extra=extra)
        return None

    async def _why(self, write: ResizeWrite, error: ApiError) -> NotResized:
        try:
            return await self._writer.why_not_resized(write.pod.namespace, error)
        except (ApiError, UnknownOutcome) as again:
            logger.info("not known why CPUs were not changed", extra={"problem": str(again)})
            return NotResized.FAILED

    def _rest(self, write: ResizeWrite, error: Exception) -> None:
        logger.info("CPUs not changed", extra={"pod": write.pod.name, "problem": str(error)})
        self._rest_until[write.pod.uid] = self._wall() + RESIZE_RETRY_SECONDS

    def _note_refusal(self, write: ResizeWrite, message: str) -> JobEvent:
        """Note that a worker is not to have more, or less, than it has."""
        low, high = self._bounds.get(write.pod.uid, (0, math.inf))
        has = 0 if write.pod.cpus is None else write.pod.cpus.request_millis
        grows = write.cpu_millis > has
        self._bounds[write.pod.uid] = (low, min(high, has)) if grows else (max(low, has), high)
        while len(self._bounds) > _REMEMBERED_REFUSALS:
            del self._bounds[next(iter(self._bounds))]
        gets = "gets no more than" if grows else "keeps"
        text = f"Worker {write.pod.rank} {gets} {has / 1000:g} CPUs in this attempt: the API server refused a change: {message}"
        return JobEvent("CPUsNotChanged", text, warning=True)

    def _note_unavailable(self, why: NotResized, error: ApiError) -> None:
        if why is NotResized.NOT_PERMITTED:
            does = (
                "does not let the operator change CPUs of pods: "
                "give it the permission to patch pods/resize, as the chart does"
            )
        else:
            does = "cannot change CPUs of running pods: that needs Kubernetes 1.33 or later"
        self._unavailable = f"the API server {does}; until then every worker keeps the CPUs that it has"
        self._unavailable_until_seconds = self._wall() + RESIZES_UNAVAILABLE_SECONDS
        logger.warning("CPUs are not divided", extra={"problem": self._unavailable, "answer": str(error)})
