"""Classifies the API server's refusals by their message: temporary, or the object's own fault.

The API server answers 403 both to a pod that exceeds a quota and to a pod that the namespace's rules never allow. No field for
programs tells these apart. An unreachable webhook is an internal error (500). The messages are fixed in Kubernetes' own
admission plugins (``resourcequota``, ``serviceaccount``, ``limitranger``, ``podsecurity``, ``webhook/errors``), so refusals are
classified by message.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class RefusalReason(StrEnum):
    """One word for programs: the reason of Placed=False after such a refusal."""

    QUOTA_EXCEEDED = "QuotaExceeded"
    """A ResourceQuota of the namespace is used up."""

    WEBHOOK_UNAVAILABLE = "WebhookUnavailable"
    """An admission webhook that has a say does not answer."""

    SERVICE_ACCOUNT_MISSING = "ServiceAccountMissing"
    """The pod's service account is not there (yet)."""

    NAME_TAKEN = "NameTaken"
    """A pod that has the name and is no worker any more is still there; it is being removed."""

    POD_REFUSED = "PodRefused"
    """Everything else: the object, or who is in its place, has to change first."""


PASSING = frozenset(RefusalReason) - {RefusalReason.POD_REFUSED}
"""These pass without anybody changing the job."""

UNBLOCK: Mapping[str, str] = {
    RefusalReason.QUOTA_EXCEEDED: "room in the quota: other pods of the namespace end, or the quota is raised",
    RefusalReason.WEBHOOK_UNAVAILABLE: "the webhook answering again",
    RefusalReason.SERVICE_ACCOUNT_MISSING: "the service account being there",
    RefusalReason.NAME_TAKEN: "the end of the pod that has the name",
    RefusalReason.POD_REFUSED: "a change of what the API server names; it is tried again until then",
}
"""By reason: what ends the wait."""

BEING_REMOVED = "is still there; it is being removed"
"""In the writer's own sentence."""

_SIGNS = (
    ("exceeded quota: ", RefusalReason.QUOTA_EXCEEDED),
    ("status unknown for quota: ", RefusalReason.QUOTA_EXCEEDED),
    ("quota evaluation timed out", RefusalReason.QUOTA_EXCEEDED),
    ("failed calling webhook ", RefusalReason.WEBHOOK_UNAVAILABLE),
    ("error looking up service account ", RefusalReason.SERVICE_ACCOUNT_MISSING),
    (BEING_REMOVED, RefusalReason.NAME_TAKEN),
)

_INSTALLATION = " cannot create resource "
"""Of a 403 for want of rights: the operator's installation is at fault, no pod."""

_TERMINATING = "is being terminated"
"""Of a 403 in a namespace that is being deleted."""


def reason_of(message: str) -> RefusalReason:
    """Return why an object is refused, by the sentence that says it."""
    # A webhook's denial may contain any text, so no other sign counts in it.
    if " denied the request" in message and "failed calling webhook " not in message:
        return RefusalReason.POD_REFUSED
    return next((reason for sign, reason in _SIGNS if sign in message), RefusalReason.POD_REFUSED)


def is_refusal(status: int, message: str) -> bool:
    """Whether an answer with this HTTP status is about the object and not about the API server's own health."""
    return status in (400, 403, 422) or (status >= 500 and reason_of(message) in PASSING)


def blames_object(status: int, message: str) -> bool:
    """Whether the object itself is at fault: as it is, it will not be taken before somebody changes it or the rules."""
    if status == 403 and (_INSTALLATION in message or _TERMINATING in message):
        return False
    return status in (400, 403, 422) and reason_of(message) is RefusalReason.POD_REFUSED
