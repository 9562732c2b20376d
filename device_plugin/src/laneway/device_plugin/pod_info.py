"""What the plugin needs from a pod in the API server's JSON: identity, requests, and the operator's
choice."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from laneway.api import names, quantity, rfc3339
from laneway.api.pod_requests import pod_requests
from laneway.api.records import explain
from laneway.api.template_profile import TemplateProfile
from pydantic import ValidationError

_log = logging.getLogger(__name__)

PodKey = tuple[str, str]
"""Namespace and name."""

_TERMINAL = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Controller:
    """What controls a pod, by its owner reference."""

    api_group: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True)
class PodInfo:
    """One pod, as last seen.

    What only the operator writes counts on a worker's pod alone. On others it may be anybody's, since the admission policy that
    keeps it off them can be switched off.
    """

    namespace: str
    name: str
    uid: str
    created_seconds: float
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    requests: Mapping[str, int]
    """Percent by container, for those that request any; init containers first, as the kubelet admits them."""
    host_requests: Mapping[str, int]
    """What it requests of the node beside shares; empty once it is in a terminal phase. CPUs are in thousandths."""
    images: Mapping[str, str]
    """The image of each of these containers, as the pod spells it."""
    init_containers: frozenset[str]
    """The names of the pod's init containers."""
    ended: bool
    """In a terminal phase, or being deleted."""
    started: bool
    """One of its containers has run, so it is not just being admitted."""
    controller: Controller | None

    @property
    def key(self) -> PodKey:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def chosen_gpus(self) -> tuple[str, ...]:
        """The uuids of the GPUs that the operator chose; empty for a plain pod."""
        text = self._operators(names.GPUS_ANNOTATION)
        return tuple(part.strip() for part in text.split(",") if part.strip())

    @property
    def minimum_enforcement(self) -> str:
        """The minimum enforcement, as its annotation spells it; empty if it demands none."""
        return self.annotations.get(names.MINIMUM_ENFORCEMENT_ANNOTATION, "")

    @property
    def profile(self) -> TemplateProfile | None:
        """The operator's profile of the pod's template; None if there is none or it is invalid."""
        text = self._operators(names.PROFILE_ANNOTATION)
        try:
            return TemplateProfile.model_validate_json(text) if text else None
        except ValidationError as error:
            _log.warning("%s", explain(error, f"{self.namespace}/{self.name}: {names.PROFILE_ANNOTATION}"))
            return None

    @property
    def template_hash(self) -> str:
        """The hash of the job's template; empty for a plain pod."""
        return self._operators(names.TEMPLATE_HASH_ANNOTATION)

    @property
    def spans_gpus(self) -> bool:
        """Whether its job's workers together use more than one GPU."""
        return self._operators(names.SPANS_GPUS_ANNOTATION) == "true"

    @property
    def wants_exclusive_use(self) -> bool:
        """Whether its job asks for GPUs that no other pod uses."""
        return self._operators(names.SHARING_ANNOTATION) == "Exclusive"

    @property
    def is_worker(self) -> bool:
        """Whether it is a worker of a TrainingJob: controlled by the job that its labels name, and called JOB-RANK.

        Kubernetes deletes a pod whose controller does not exist. So a pod that claims this falsely names a job that its author
        has, or may delete.
        """
        job, controller = self.labels.get(names.JOB_LABEL), self.controller
        return (
            controller is not None
            and (controller.api_group, controller.kind) == (names.GROUP, "TrainingJob")
            and (controller.name, controller.uid) == (job, self.labels.get(names.JOB_UID_LABEL))
            and self.name == f"{job}-{self.labels.get(names.RANK_LABEL)}"
            and self.labels.get(names.RANK_LABEL, "").isdigit()
            and self.labels.get(names.ATTEMPT_LABEL, "").isdigit()
        )

    @property
    def job(self) -> str | None:
        """The TrainingJob whose worker it is."""
        return self.labels[names.JOB_LABEL] if self.is_worker else None

    @property
    def job_uid(self) -> str:
        """The uid of that job; empty for a plain pod."""
        return self.labels[names.JOB_UID_LABEL] if self.is_worker else ""

    @property
    def rank(self) -> int | None:
        """The worker's rank."""
        return int(self.labels[names.RANK_LABEL]) if self.is_worker else None

    @property
    def attempt(self) -> int | None:
        """The number of the gang's attempt."""
        return int(self.labels[names.ATTEMPT_LABEL]) if self.is_worker else None

    def _operators(self, annotation: str) -> str:
        """Return an annotation that only the operator writes; empty on a pod that is no worker."""
        return self.annotations.get(annotation, "") if self.is_worker else ""


def pod_info(pod: Mapping[str, Any]) -> PodInfo:
    """Extract the information from a pod of the API server.

    Raises:
        ValueError, KeyError: it is not a pod.
    """
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    first = spec.get("initContainers") or ()
    containers = [*first, *(spec.get("containers") or ())]
    requests = {container["name"]: _percent(container) for container in containers}
    return PodInfo(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        created_seconds=rfc3339.parse_time(metadata["creationTimestamp"]),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        requests={name: percent for name, percent in requests.items() if percent},
        host_requests={} if status.get("phase") in _TERMINAL else pod_requests(spec),
        images={
            container["name"]: container.get("image") or ""
            for container in containers
            if requests[container["name"]]
        },
        init_containers=frozenset(container["name"] for container in first),
        ended=bool(metadata.get("deletionTimestamp")) or status.get("phase") in _TERMINAL,
        controller=_controller(metadata),
        started=any(_has_started(container) for container in status.get("containerStatuses") or ()),
    )


def _percent(container: Mapping[str, Any]) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    return int(quantity.parse(limits.get(names.GPU_PERCENT, 0)))


def _controller(metadata: Mapping[str, Any]) -> Controller | None:
    owner = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), None)
    if owner is None:
        return None
    group, _, _ = owner["apiVersion"].rpartition("/")
    return Controller(group, owner["kind"], owner["name"], owner["uid"])


def _has_started(status: Mapping[str, Any]) -> bool:
    return bool({"running", "terminated"} & set(status.get("state") or {}) or status.get("lastState"))
