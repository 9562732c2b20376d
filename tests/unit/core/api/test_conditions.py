"""Conditions: one of each type, and a transition time that tells when the status changed."""

from laneway.api.conditions import Condition, is_true, with_condition

T1, T2 = "2026-01-31T12:00:00Z", "2026-01-31T12:00:01Z"


def condition(type_: str, status: str, time: str, reason: str = "Because") -> Condition:
    return Condition.model_validate(
        {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": "It is so.",
            "lastTransitionTime": time,
        }
    )


def test_a_new_type_is_added() -> None:
    result = with_condition((condition("Placed", "True", T1),), condition("Running", "False", T2))
    assert [(c.type, c.status) for c in result] == [("Placed", "True"), ("Running", "False")]


def test_the_transition_time_stays_while_the_status_does() -> None:
    (result,) = with_condition(
        (condition("Running", "False", T1),), condition("Running", "False", T2, "Another")
    )
    assert (result.reason, result.last_transition_time) == ("Another", T1)


def test_the_transition_time_moves_when_the_status_changes() -> None:
    (result,) = with_condition((condition("Running", "False", T1),), condition("Running", "True", T2))
    assert result.last_transition_time == T2
    assert is_true((result,), "Running")
    assert not is_true((result,), "Placed")
