"""TrainingJobs: ``a_job("a").gang(2).placed("n1", at=5).record``."""

from __future__ import annotations

import copy
from typing import Any, Self

from laneway.api import names
from laneway.api.rfc3339 import format_time
from laneway.api.training_job_status import (
    ExecutionStatus,
    ProfileStatus,
    TrainingJobStatus,
)
from laneway.operator.lifecycle import transitions
from laneway.operator.state.records.job_record import JobRecord, parse_job

from tests.unit.operator.builders.moment import NOW
from tests.unit.operator.builders.placements import placement_on


class JobBuilder:
    """A TrainingJob in namespace ``ns``, created 100 s ago."""

    def __init__(self, name: str) -> None:
        self._status: TrainingJobStatus | None = None
        self._raw: dict[str, Any] = {
            "apiVersion": names.API_VERSION,
            "kind": "TrainingJob",
            "metadata": {
                "name": name,
                "namespace": "ns",
                "uid": f"uid-{name}",
                "resourceVersion": "1",
                "generation": 1,
                "creationTimestamp": format_time(NOW - 100),
            },
            "spec": {
                "workers": 1,
                "gpus": {"type": "Count", "count": 1},
                "template": {"spec": {"containers": [{"name": "trainer", "image": "i"}]}},
            },
        }

    def spec(self, **fields: Any) -> Self:
        """Set fields of the spec."""
        self._raw["spec"].update(fields)
        return self

    def gang(self, workers: int) -> Self:
        """Ask for several workers."""
        return self.spec(workers=workers)

    def share(self, percent: int) -> Self:
        """Ask for a share of a GPU."""
        return self.spec(gpus={"type": "Share", "sharePercent": percent})

    def metadata(self, **fields: Any) -> Self:
        """Set fields of the metadata."""
        self._raw["metadata"].update(fields)
        return self

    def visited(self, at: float = NOW - 90) -> Self:
        """It was seen and admitted."""
        first = transitions.first_visited(TrainingJobStatus(), NOW - 100, at)
        self._status = transitions.admitted(first, at).model_copy(update={"observed_generation": 1})
        return self

    def placed(self, *nodes: str, at: float = NOW - 10, gpus: int = 1, percent: int = 100) -> Self:
        """Its workers are on these nodes, the n-th of a node on its GPU n."""
        if self._status is None:
            self.visited()
        assert self._status is not None
        self._status = transitions.placed(self._status, placement_on(*nodes, gpus=gpus, percent=percent), at)
        return self

    def running(self, since: float = NOW - 5) -> Self:
        """All of its workers run."""
        assert self._status is not None
        self._status = transitions.started(self._status, "AllWorkersRun", "they run", since)
        return self

    def status(self, **fields: Any) -> Self:
        """Set fields of the status."""
        assert self._status is not None
        self._status = self._status.model_copy(update=fields)
        return self

    def ran(
        self,
        profile: ProfileStatus | None = None,
        *,
        model: str = "A100",
        image_id: str = "sha256:1",
        at: float = NOW - 10,
    ) -> Self:
        """Its last attempt started then, on that GPU model and with that image, and was measured where there is a profile."""
        desired = self.record.desired
        assert desired is not None
        assert self._status is not None
        execution = ExecutionStatus(
            attempt=self._status.attempt,
            started_at=format_time(at),
            template_hash=desired.template_hash,
            gpu_models=(model,),
            imageIDs=(image_id,),
            profiled=profile is not None,
        )
        return self.status(profile=profile, execution=execution)

    def after(self, step: Any, *arguments: Any) -> Self:
        """Take a step of ``transitions``."""
        assert self._status is not None
        self._status = step(self._status, *arguments)
        return self

    @property
    def raw(self) -> dict[str, Any]:
        """The object as the API server has it."""
        raw = copy.deepcopy(self._raw)
        if self._status is not None:
            raw["status"] = self._status.to_json()
        return raw

    @property
    def record(self) -> JobRecord:
        """The object as the operator keeps it."""
        return parse_job(self.raw)


def a_job(name: str = "job") -> JobBuilder:
    """A job."""
    return JobBuilder(name)
