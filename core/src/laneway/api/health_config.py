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
        default=(), description="XIDs that say nothing about the GPU, as those of applications' own errors."
    )
    quarantine_xids: tuple[Xid, ...] = Field(
        default=(),
        description="XIDs after which a GPU is out of use until it was without errors for a while.",
    )
    reset_xids: tuple[Xid, ...] = Field(
        default=(),
        description="XIDs after which a GPU is out of use until it was reset or the node rebooted.",
    )
    probe_seconds: int = Field(default=2, ge=1, le=300, description="Time between two probes of a GPU.")
    answer_seconds: int = Field(
        default=5, ge=1, le=300, description="A driver that has not answered by then hangs."
    )
    clean_seconds: int = Field(
        default=60,
        ge=0,
        le=86_400,
        description="A GPU that had an error comes back when it was without for so long, and no sooner.",
    )
    clean_probes: int = Field(
        default=3,
        ge=1,
        le=1000,
        description="A GPU that had an error needs this many probes without errors in a row. For one that only did not answer they suffice.",
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
