"""Messages name jobs and pods as people know them: ``namespace/name``."""

from __future__ import annotations

from laneway.api.job_names import sentence_for, sentence_in_full
from laneway.scheduling.explain.reasons import awaiting_release


def test_a_pod_whose_sessions_end_is_named_once_without_their_keys() -> None:
    sessions = [f"ns/old-0/9a07756858254e69/n2/{gpu}" for gpu in range(4)]
    waits = awaiting_release(sessions)
    assert sentence_for(waits.message, "ns") == "Waiting for ns/old-0 to release its GPUs."
    assert waits.blockers == ("ns/old-0",)
    waits = awaiting_release(["ns/other", *sessions])
    assert sentence_in_full(waits.message) == "Waiting for ns/other and ns/old-0 to release their GPUs."
    assert awaiting_release(["other"]).blockers == ("other",), "the simulator's jobs need no namespace"
