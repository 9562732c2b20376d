"""What the API server's own sentences say of why it does not take an object."""

from __future__ import annotations

import pytest
from laneway.api.attempt_status import AttemptOutcome
from laneway.operator.lifecycle import transitions
from laneway.operator.lifecycle.gang import Attempt, Outcome, evaluate_attempt
from laneway.operator.lifecycle.refusals import blames_object, is_refusal, reason_of
from laneway.scheduling import JobState

from tests.unit.operator.builders import NOW, TIMEOUTS, a_job, a_view, context_of, reconciled_job_of

QUOTA = 'pods "a-0" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2'
UNKNOWN_QUOTA = 'pods "a-0" is forbidden: status unknown for quota: few, resources: pods'
SILENT_QUOTA = 'pods "a-0" is forbidden: failed quota: few: must specify limits.cpu for: trainer'
WEBHOOK_DOWN = (
    'Internal error occurred: failed calling webhook "policy.example": failed to call webhook: Post '
    '"https://policy.example.svc:443/?timeout=1s": dial tcp 127.0.0.1:9: connect: connection refused'
)
WEBHOOK_DENIES = 'admission webhook "policy.example" denied the request: exceeded quota: of cats'
NO_ACCOUNT = 'pods "a-0" is forbidden: error looking up service account ns/x: serviceaccount "x" not found'
LIMIT_RANGE = 'pods "a-0" is forbidden: maximum cpu usage per Container is 1, but limit is 2'
POD_SECURITY = 'pods "a-0" is forbidden: violates PodSecurity "restricted:latest": host namespaces'
INVALID = 'Pod "a-0" is invalid: spec.containers[0].image: Required value'
NO_RIGHT = (
    'pods is forbidden: User "laneway" cannot create resource "pods" in API group "" in the namespace "ns"'
)
TERMINATING = (
    'pods "a-0" is forbidden: unable to create new content in namespace ns because it is being terminated'
)
GOING = "the pod a-0 of an earlier job of this name is still there; it is being removed"
OWN_TROUBLE = "Internal error occurred: etcdserver: request timed out"


@pytest.mark.parametrize(
    ("status", "message", "reason", "refusal", "blamed"),
    [
        (403, QUOTA, "QuotaExceeded", True, False),
        (403, UNKNOWN_QUOTA, "QuotaExceeded", True, False),
        (403, SILENT_QUOTA, "PodRefused", True, True),
        (500, WEBHOOK_DOWN, "WebhookUnavailable", True, False),
        (400, WEBHOOK_DENIES, "PodRefused", True, True),
        (403, NO_ACCOUNT, "ServiceAccountMissing", True, False),
        (403, LIMIT_RANGE, "PodRefused", True, True),
        (403, POD_SECURITY, "PodRefused", True, True),
        (422, INVALID, "PodRefused", True, True),
        (403, NO_RIGHT, "PodRefused", True, False),
        (409, GOING, "NameTaken", False, False),
        (403, TERMINATING, "PodRefused", True, False),
        (500, OWN_TROUBLE, "PodRefused", False, False),
        (409, QUOTA, "QuotaExceeded", False, False),
    ],
)
def test_transient_refusals_are_distinguished_from_faults_of_the_object(
    status: int, message: str, reason: str, refusal: bool, blamed: bool
) -> None:
    assert reason_of(message) == reason
    assert (is_refusal(status, message), blames_object(status, message)) == (refusal, blamed)


@pytest.mark.parametrize(
    ("message", "reason", "unblock"),
    [
        (QUOTA, "QuotaExceeded", "room in the quota"),
        (WEBHOOK_DOWN, "WebhookUnavailable", "the webhook answering"),
    ],
)
def test_a_gang_that_is_refused_backs_off_and_says_what_it_waits_for(
    message: str, reason: str, unblock: str
) -> None:
    context = context_of(a_view())
    result = evaluate_attempt(Attempt(2, NOW, False, [], refused=message), context)
    assert (result.outcome, result.reason) == (Outcome.ROLLED_BACK, reason)

    refused = (
        a_job()
        .gang(2)
        .placed("n1", "n1")
        .after(transitions.unplaced, AttemptOutcome.ROLLED_BACK, reason, message, NOW, NOW)
        .record
    )
    reconciled = reconciled_job_of(refused)
    waiting = reconciled.job.status.waiting
    assert waiting is not None
    assert (waiting.reason, reconciled.state) == ("BackingOff", None)
    assert message in waiting.message
    assert waiting.unblock.startswith(unblock)
    assert reconciled.due_seconds == NOW + TIMEOUTS.refusal_backoff_seconds
    again = reconciled_job_of(refused, now=NOW + TIMEOUTS.refusal_backoff_seconds)
    assert again.state is JobState.WAITING
