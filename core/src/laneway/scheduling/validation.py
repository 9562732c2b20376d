"""The check that every plan passes before it leaves."""

from __future__ import annotations

from laneway.scheduling.plan_types import Plan
from laneway.scheduling.snapshot import ClusterSnapshot


class InvalidPlan(Exception):  # noqa: N818 - it is not an error of the caller's; the name says what it is
    """A plan breaks an invariant; the message says which, and where."""


def validate(snapshot: ClusterSnapshot, plan: Plan) -> None:
    """Check a plan against the snapshot that it was made from.

    Raises:
        InvalidPlan: with a sentence that names the job, the GPU and the numbers.
    """
    raise NotImplementedError
