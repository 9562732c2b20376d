"""Values that a newer release adds to the enumerations of a status: docs/api-versions.md lets them be added."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from laneway.api.gpu_node import GPUNodeStatus
from laneway.api.schema import Status
from laneway.api.training_job_status import TrainingJobStatus
from laneway.api.training_profile import TrainingProfileStatus
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo


def parts(annotation: Any) -> Iterator[Any]:
    """A type, and those that it is made of."""
    yield annotation
    if get_origin(annotation) is not Literal:
        for part in get_args(annotation):
            yield from parts(part)


def models(*roots: type[Status]) -> list[type[Status]]:
    """The records in which a status is read."""
    found: dict[type[Status], None] = {}
    left = list(roots)
    while left:
        model = left.pop()
        found[model] = None
        inside = (part for field in model.model_fields.values() for part in parts(field.annotation))
        left += [
            part
            for part in inside
            if isinstance(part, type) and issubclass(part, Status) and part not in found
        ]
    return list(found)


def is_enumeration(annotation: Any) -> bool:
    return get_origin(annotation) is Literal or (
        isinstance(annotation, type) and issubclass(annotation, Enum)
    )


ENUMERATIONS = {
    f"{model.__name__}.{name}": field
    for model in models(TrainingJobStatus, GPUNodeStatus, TrainingProfileStatus)
    for name, field in model.model_fields.items()
    if any(map(is_enumeration, parts(field.annotation)))
}


def test_the_enumerations_are_found() -> None:
    assert {"PreemptionStatus.action", "Condition.status", "AttemptStatus.outcome"} <= set(ENUMERATIONS)


@pytest.mark.parametrize("value", ["Newer", {"kind": "Newer"}])
@pytest.mark.parametrize("field", ENUMERATIONS.values(), ids=ENUMERATIONS)
def test_a_newer_value_is_read_as_a_known_one(field: FieldInfo, value: object) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[field.annotation, *field.metadata])
    read = adapter.validate_python(value)
    assert adapter.validate_python(read) == read != value
