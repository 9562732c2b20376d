"""What the client returns: a TrainingJob, its ended attempts and an event, typed. ``object`` has everything, in the API server's own form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from laneway.sdk import job_object


@dataclass(frozen=True)
class EndedAttempt:
    """An attempt of a job that is over."""

    object: Mapping[str, Any]
    """The entry of ``status.endedAttempts``, in the API server's own form."""

    @property
    def attempt(self) -> int:
        """Its number."""
        return int(self.object["attempt"])

    @property
    def started_at(self) -> datetime:
        """When it was placed."""
        return datetime.fromisoformat(self.object["startedAt"])

    @property
    def ended_at(self) -> datetime:
        """When its workers ended, or were told to end."""
        return datetime.fromisoformat(self.object["endedAt"])

    @property
    def num_nodes(self) -> int:
        """Its number of workers."""
        return int(self.object["workers"])

    @property
    def outcome(self) -> str:
        """Why it ended: a value of ``laneway.api.attempt_status.AttemptOutcome``."""
        return str(self.object["outcome"])

    @property
    def reason(self) -> str:
        """The same more precisely, as one CamelCase word."""
        return str(self.object["reason"])

    @property
    def message(self) -> str:
        """The same as a sentence."""
        return str(self.object.get("message") or "")

    @property
    def gpu_seconds(self) -> float:
        """GPU time that it attained; a share of s percent counts as s/100 of a GPU."""
        return int(self.object.get("attainedServiceGPUMilliseconds") or 0) / 1000

    @property
    def lost_gpu_seconds(self) -> float | None:
        """GPU time of work that no checkpoint held when it ended; None where nothing is known of checkpoints."""
        lost = self.object.get("lostServiceGPUMilliseconds")
        return None if lost is None else int(lost) / 1000


@dataclass(frozen=True)
class TrainingJob:
    """A TrainingJob as it was read."""

    object: Mapping[str, Any]
    """The whole object, in the API server's own form."""

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.object["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return str(self.object["metadata"]["namespace"])

    @property
    def creation_timestamp(self) -> datetime:
        """When it was created."""
        return datetime.fromisoformat(self.object["metadata"]["creationTimestamp"])

    @property
    def status(self) -> str:
        """Its state, as ``kubectl get tj`` shows it: a value of ``laneway.api.job_conditions.SummaryState``."""
        return job_object.state(self.object)

    @property
    def reason(self) -> str:
        """Why it is in that state, as one CamelCase word; empty where the state says all."""
        return str(job_object.status(self.object).get("reason") or "")

    @property
    def message(self) -> str:
        """Why it waits, or else what its last change was, as a sentence; empty before the operator's first visit."""
        if wait := job_object.waiting(self.object):
            return str(wait["message"])
        true = [each for each in job_object.conditions(self.object) if each["status"] == "True"]
        last = max(true, key=lambda each: str(each["lastTransitionTime"]), default=None)
        return str(last["message"]) if last else ""

    @property
    def num_nodes(self) -> int:
        """Its number of workers: those of the current attempt, or else of the next one."""
        return job_object.workers(self.object)

    @property
    def progress_percent(self) -> int | None:
        """How much of the training is done, as the script reports it; None without a report."""
        percent = (job_object.status(self.object).get("progress") or {}).get("percent")
        return None if percent is None else int(percent)

    @property
    def ended_attempts(self) -> tuple[EndedAttempt, ...]:
        """Its latest attempts that are over, ten at most, in their order."""
        return tuple(map(EndedAttempt, job_object.status(self.object).get("endedAttempts") or ()))

    @property
    def finished(self) -> bool:
        """Whether it has completed or failed."""
        return job_object.finished(self.object)


@dataclass(frozen=True)
class Event:
    """An event of a job or of one of its workers."""

    object: Mapping[str, Any]
    """The whole object, in the API server's own form."""

    @property
    def involved_object_kind(self) -> str:
        """``TrainingJob`` or ``Pod``."""
        return str(self.object["involvedObject"]["kind"])

    @property
    def involved_object_name(self) -> str:
        """Name of the job or of the worker's pod."""
        return str(self.object["involvedObject"]["name"])

    @property
    def type(self) -> str:
        """``Normal`` or ``Warning``."""
        return str(self.object.get("type") or "")

    @property
    def reason(self) -> str:
        """What happened, as one CamelCase word."""
        return str(self.object.get("reason") or "")

    @property
    def message(self) -> str:
        """What happened, as a sentence."""
        return " ".join((self.object.get("message") or "").split())

    @property
    def event_time(self) -> datetime:
        """When it was last seen: the first of the event's times that is set; 1970 if none is."""
        series = self.object.get("series") or {}
        times = (
            series.get("lastObservedTime"),
            self.object.get("lastTimestamp"),
            self.object.get("eventTime"),
            self.object["metadata"].get("creationTimestamp"),
        )
        return datetime.fromisoformat(next((str(text) for text in times if text), "1970-01-01T00:00:00Z"))


def of_an_earlier_job(event: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """Whether an event is about a deleted job of the same name, or about a worker of one.

    Args:
        event: about a job of this name or a pod of its workers' names.
        metadata: the job's.
    """
    about = event["involvedObject"]
    if about["kind"] == "TrainingJob":
        return bool(about.get("uid", metadata["uid"]) != metadata["uid"])
    written, created = (
        datetime.fromisoformat(each["creationTimestamp"]) for each in (event["metadata"], metadata)
    )
    return written < created
