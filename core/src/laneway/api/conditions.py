"""Conditions, as the Kubernetes API conventions define them (``metav1.Condition``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from laneway.api.schema import Status, Time, or_else
from pydantic import Field

ConditionStatus = Literal["True", "False", "Unknown"]


class Condition(Status):
    """One observed condition of an object, as metav1.Condition."""

    type: str = Field(description="Type of the condition.", max_length=316)
    status: Annotated[ConditionStatus, or_else("Unknown")] = Field(description="Whether the condition holds.")
    reason: str = Field(
        description="Why, as one CamelCase word for programs.",
        min_length=1,
        max_length=1024,
        pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
    )
    message: str = Field(description="Why, as a sentence.", max_length=32768)
    last_transition_time: Time = Field(description="When the status last changed.")
    observed_generation: int | None = Field(
        default=None, description="Generation of the spec for which the condition was observed.", ge=0
    )


def with_condition(conditions: Iterable[Condition], new: Condition) -> tuple[Condition, ...]:
    """Return the conditions with ``new`` in place of the condition of the same type.

    While the status stays the same, so does the transition time, as the API conventions require.
    """
    result = []
    replaced = False
    for old in conditions:
        if old.type != new.type:
            result.append(old)
            continue
        replaced = True
        kept = old.last_transition_time if old.status == new.status else new.last_transition_time
        result.append(new.model_copy(update={"last_transition_time": kept}))
    if not replaced:
        result.append(new)
    return tuple(result)


def is_true(conditions: Iterable[Condition], type_: str) -> bool:
    """Return whether the condition of this type is set and holds."""
    return any(condition.type == type_ and condition.status == "True" for condition in conditions)
