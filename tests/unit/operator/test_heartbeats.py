"""Which agents count as silent: by their Leases, by GPUNodes where there is none, and only while renewals could be seen."""

from __future__ import annotations

from bisect import bisect
from itertools import accumulate

from laneway.api.node_lease import RENEW_SECONDS
from laneway.operator.pacing import HEARTBEAT_LISTS_PER_SILENCE
from laneway.operator.state.heartbeats import Heartbeats
from laneway.scheduling.config.operator_config import TimeoutsConfig

INTERVAL, SILENCE = 10.0, 40.0


def lists(beats: Heartbeats, *versions: dict[str, str], known: frozenset[str] = frozenset()) -> None:
    """Take these lists, an interval apart."""
    for each in versions:
        beats.listed(each, known, INTERVAL)


def test_an_agent_that_does_not_renew_is_silent_and_is_heard_again() -> None:
    beats = Heartbeats()
    lists(beats, *({"a": str(version), "b": "1"} for version in range(5)))
    assert beats.silent(SILENCE) == frozenset(), "40 s are allowed"
    lists(beats, {"a": "6", "b": "1"})
    assert beats.silent(SILENCE) == {"b"}
    lists(beats, {"a": "7", "b": "2"})
    assert beats.silent(SILENCE) == frozenset()


def test_time_without_lists_is_no_silence() -> None:
    """The API server was away: nobody could renew, and nobody could see it."""
    beats = Heartbeats()
    lists(beats, {"a": "1"}, {"a": "1"})
    for _ in range(3):
        beats.listed({"a": "1"}, frozenset(), 0.0)
    assert beats.silent(SILENCE) == frozenset()
    lists(beats, *[{"a": "1"}] * 4)
    assert beats.silent(SILENCE) == {"a"}


def test_without_a_lease_the_gpu_node_counts() -> None:
    beats, known = Heartbeats(), frozenset({"old", "new"})
    beats.wrote("old")
    beats.wrote("new")
    lists(beats, *[{"new": "1"}] * 3, known=known)
    beats.wrote("old")
    beats.wrote("new")  # an order of the operator's own
    lists(beats, *[{"new": "1"}] * 3, known=known)
    assert beats.silent(SILENCE) == {"new"}


def test_a_lease_that_is_gone_makes_no_agent_live() -> None:
    beats, known = Heartbeats(), frozenset({"a"})
    lists(beats, {"a": "1"}, *[dict[str, str]()] * 5, known=known)
    assert beats.silent(SILENCE) == {"a"}
    lists(beats, {})
    assert beats.silent(SILENCE) == frozenset(), "the node itself is gone"


def test_with_the_shortest_silence_that_may_be_configured_one_failed_renewal_is_no_silence() -> None:
    (shortest,) = (
        each.ge for each in TimeoutsConfig.model_fields["silent_node_seconds"].metadata if hasattr(each, "ge")
    )
    regular = RENEW_SECONDS + 1.0  # the least time between two writes
    repeated = regular + 3.0 + 1.25  # no connection, and the longest first back-off
    renewals = [*accumulate([regular, repeated, repeated] * 100)]
    beats, interval = Heartbeats(), shortest / HEARTBEAT_LISTS_PER_SILENCE * 1.001  # a timer is never early
    for number in range(200):
        beats.listed({"a": str(bisect(renewals, number * interval))}, {"a"}, interval)
        assert beats.silent(shortest) == frozenset()
