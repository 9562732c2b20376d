"""What every model of a custom resource shares: camelCase names, and extensions that end in the CRD."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


def camel(name: str) -> str:
    """Return the JSON name of a field, spelled as the Kubernetes API conventions want it (``nodeUID``, ``numaNode``)."""
    text: str = to_camel(name)
    return text


class Model(BaseModel):
    """A frozen record of a custom resource. Unknown fields are refused: a typo must not be ignored."""

    model_config = ConfigDict(
        alias_generator=camel,
        populate_by_name=True,
        frozen=True,
        extra="forbid",
        use_enum_values=True,
        protected_namespaces=(),
    )

    def to_json(self) -> dict[str, Any]:
        """Return the object as the API server takes it, without the fields that are unset."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class Status(Model):
    """A record that is read back from the cluster: a newer writer may have added fields, which are ignored here."""

    model_config = ConfigDict(extra="ignore")


def rules(*pairs: tuple[str, str]) -> dict[str, Any]:
    """Return the CEL rules of a schema from (rule, message) pairs."""
    return {"x-kubernetes-validations": [{"rule": rule, "message": message} for rule, message in pairs]}
