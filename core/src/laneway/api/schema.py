"""Base classes of the custom resources' models: camelCase names, and extensions for the CRD."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from laneway.api.rfc3339 import check_time
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, WrapValidator
from pydantic.alias_generators import to_camel

MAX_COUNTER = 2**53
"""The maximum of every integer without a smaller one. A schema's maximum is a float64, which is exact up to here."""


WRITTEN_AS_A_WHOLE: Final[dict[str, Any]] = {"x-kubernetes-list-type": "atomic"}
"""A list of a status with one writer. The API server keeps no account of who wrote which field of which entry, which would be more than half
of the cost of a write, and as large as the list; what somebody else put into the list goes with the next write."""

Time = Annotated[str, AfterValidator(check_time), Field(json_schema_extra={"format": "date-time"})]
"""A field with a time. A record with another text cannot be read, so that what was read needs no second check."""


def camel(name: str) -> str:
    """Return the JSON name of a field, such as ``numaNode``; a field with an acronym (``podUID``) sets its own alias."""
    text: str = to_camel(name)
    return text


class Model(BaseModel):
    """Frozen record of a custom resource. Unknown fields are refused, so that no typo is ignored."""

    model_config = ConfigDict(
        alias_generator=camel,
        populate_by_name=True,
        frozen=True,
        extra="forbid",
        use_enum_values=True,
        protected_namespaces=(),
    )

    def to_json(self) -> dict[str, Any]:
        """Return the object as JSON for the API server, without unset fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class Spec(Model):
    """Record that others write. The API server refuses unknown fields, so one that is read here belongs to a newer CRD: ignored."""

    model_config = ConfigDict(extra="ignore")


def or_else(fallback: str) -> WrapValidator:
    """Return a validator that reads a value which a newer writer may have added to an enumeration as another one.

    Every enumeration of a :class:`Status` has it: after a roll-back, an older operator still reads what a newer one wrote.
    """

    def read(value: Any, known: Callable[[Any], Any]) -> Any:
        try:
            return known(value)
        except ValidationError:
            return known(fallback)

    return WrapValidator(read)


class Status(Model):
    """Record that is read back from the cluster. Unknown fields are ignored: a newer writer may have added them."""

    model_config = ConfigDict(extra="ignore")

    def to_json(self) -> dict[str, Any]:
        """Return the object as JSON for the API server, without unset fields.

        Integers above :data:`MAX_COUNTER` become that: much is reported by users' processes, and the API server would refuse the
        whole status for one false figure.
        """
        result = super().to_json()
        _bound(result)
        return result


def _bound(values: Any) -> None:
    for key, value in values.items() if isinstance(values, dict) else enumerate(values):
        if isinstance(value, dict | list):
            _bound(value)
        elif isinstance(value, int) and value > MAX_COUNTER:
            values[key] = MAX_COUNTER


def rules(*pairs: tuple[str, str]) -> dict[str, Any]:
    """Return the CEL rules of a schema from (rule, message) pairs.

    A rule that asks ``oldSelf.hasValue()`` is checked when an object is created, too.
    """
    return {
        "x-kubernetes-validations": [
            {
                "rule": rule,
                "message": message,
                **({"optionalOldSelf": True} if "oldSelf.hasValue()" in rule else {}),
            }
            for rule, message in pairs
        ]
    }
