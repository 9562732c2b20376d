"""The part of ``node.yaml`` that says when a GPU is taken out of use, and when it comes back."""

from __future__ import annotations

from typing import Annotated, Self

from laneway.api.schema import Model
from pydantic import Field, model_validator

Xid = Annotated[int, Field(ge=0, le=9999)]
_LISTS = ("ignoredXids", "quarantineXids", "resetXids")


class HealthConfig(Model):
    """What counts as an error of a GPU. XIDs that no list names are judged by the agent's own table."""

    ignored_xids: tuple[Xid, ...] = Field(
        default=(),
        description="XIDs that do not indicate a fault of the GPU, such as errors of applications.",
    )
    quarantine_xids: tuple[Xid, ...] = Field(
        default=(),
        description="XIDs after which a GPU is out of use until it has had no errors for a while.",
    )
    reset_xids: tuple[Xid, ...] = Field(
        default=(),
        description="XIDs after which a GPU is out of use until it is reset or the node reboots.",
    )
    probe_seconds: int = Field(default=2, ge=1, le=300, description="Time between two probes of a GPU.")
    answer_seconds: int = Field(
        default=5,
        ge=1,
        le=300,
        description="Time without an answer after which the driver counts as hanging.",
    )
    clean_seconds: int = Field(
        default=60,
        ge=0,
        le=86_400,
        description="Time without errors before a GPU that had one is used again.",
    )
    clean_probes: int = Field(
        default=3,
        ge=1,
        le=1000,
        description="Probes in a row without errors before a GPU that had one is used again. They suffice for a GPU that only did not answer.",
    )

    @model_validator(mode="after")
    def _each_xid_once(self) -> Self:
        lists = (self.ignored_xids, self.quarantine_xids, self.reset_xids)
        for index, (name, xids) in enumerate(zip(_LISTS, lists, strict=True)):
            for other, more in zip(_LISTS[index + 1 :], lists[index + 1 :], strict=True):
                if both := sorted(set(xids) & set(more)):
                    raise ValueError(
                        f"{name} and {other} both list XID {both[0]}: write it in the one that is to hold"
                    )
        return self
