"""Messages name jobs and pods as people know them, ``namespace/name``, to the users of the namespace."""

from __future__ import annotations

import math

import pytest
from laneway.api.job_names import sentence_for, sentence_in_full
from laneway.scheduling import WaitingReason
from laneway.scheduling.explain import reasons
from laneway.scheduling.explain.reasons import awaiting_release

from tests.unit.core.scheduling.builders import a_job

OWN, FOREIGN = a_job("us/own").made, a_job("rivals/foreign").made


@pytest.mark.parametrize(
    ("reason", "want"),
    [
        (
            reasons.behind(FOREIGN.key),
            "A job of another namespace is ahead of it and waits for the same GPUs; the order policy lets no job pass.",
        ),
        (
            reasons.behind_reservation(FOREIGN.key),
            "A job of another namespace goes first and has GPUs reserved; this job could not be preempted when that one is to start.",
        ),
        (
            reasons.reserved([OWN, FOREIGN], math.inf),
            "Goes first, and waits for GPUs of us/own and a job of another namespace, which may not be preempted yet.",
        ),
        (
            reasons.no_workers(OWN, 4, {OWN.key: 0, FOREIGN.key: 3, "rivals/more": 1}),
            "The elastic policy gives it no workers for now: it needs 1 GPU at least, and the 4 GPUs for elastic jobs go to 2 jobs of other "
            "namespaces.",
        ),
    ],
)
def test_a_job_of_another_namespace_is_not_named(reason: WaitingReason, want: str) -> None:
    assert sentence_for(reason.message, "us") == want
    assert "rivals" not in reason.unblock


def test_a_pod_whose_sessions_end_is_named_once_without_their_keys() -> None:
    sessions = [f"ns/old-0/9a07756858254e69/n2/{gpu}" for gpu in range(4)]
    waits = awaiting_release(sessions)
    assert sentence_for(waits.message, "ns") == "Waiting for ns/old-0 to release its GPUs."
    assert waits.blockers == ("ns/old-0",)
    waits = awaiting_release(["ns/other", *sessions])
    assert sentence_in_full(waits.message) == "Waiting for ns/other and ns/old-0 to release their GPUs."
    assert awaiting_release(["other"]).blockers == ("other",), "the simulator's jobs need no namespace"
