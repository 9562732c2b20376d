"""Who may write when, on clocks of the test's own."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from laneway.operator.execute.leader import Leadership
from laneway.operator.watch.apiserver import ApiError, UnknownOutcome
from laneway.scheduling.config.operator_config import LeaseConfig

CONFIG = LeaseConfig(duration_seconds=15, renew_deadline_seconds=10, retry_seconds=2)


class LeaseOnServer:
    """The one object that the replicas share, with the API server's rules."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.reachable = True
        self._version = 0

    async def read(self) -> dict[str, Any]:
        self._answer()
        if self.lease is None:
            raise ApiError(404, "NotFound", "no lease")
        return copy.deepcopy(self.lease)

    async def put(self, lease: dict[str, Any], new: bool) -> dict[str, Any]:
        self._answer()
        current = self.lease["metadata"]["resourceVersion"] if self.lease else None
        if new == (self.lease is not None) or lease["metadata"].get("resourceVersion") != current:
            raise ApiError(409, "Conflict", "somebody was faster")
        self._version += 1
        self.lease = copy.deepcopy(lease)
        self.lease["metadata"]["resourceVersion"] = str(self._version)
        return copy.deepcopy(self.lease)

    def _answer(self) -> None:
        if not self.reachable:
            raise UnknownOutcome("no answer")


class Replica:
    """A replica on a clock that can stop while others continue."""

    def __init__(self, name: str, server: LeaseOnServer, offset: float = 0.0) -> None:
        self.now = 1000.0 + offset
        self.part = Leadership(
            CONFIG,
            "laneway-system",
            name,
            monotonic=lambda: self.now,
            wall=lambda: 1_700_000_000.0 + self.now,
            read=server.read,
            put=server.put,
        )

    async def tries(self) -> bool:
        await self.part.attempt()
        return self.part.leads


@pytest.fixture
def server() -> LeaseOnServer:
    return LeaseOnServer()


async def test_the_first_to_come_leads_and_the_second_does_not(server: LeaseOnServer) -> None:
    a, b = Replica("a", server), Replica("b", server)
    assert await a.tries()
    assert not await b.tries()
    assert a.part.seconds_left() == pytest.approx(10)
    assert b.part.seconds_left() == 0


async def test_a_leader_that_cannot_renew_stops_before_another_may_start(server: LeaseOnServer) -> None:
    a, b = Replica("a", server), Replica("b", server, offset=500.0)
    assert await a.tries()
    assert not await b.tries()
    for _ in range(16):
        a.now += 1
        b.now += 1
        took_over = await b.tries()
        assert not (a.part.leads and took_over), "at no moment do two lead"
    assert took_over


async def test_a_replica_that_was_frozen_past_its_lease_may_not_write_when_it_wakes(
    server: LeaseOnServer,
) -> None:
    a, b = Replica("a", server), Replica("b", server)
    assert await a.tries()
    assert not await b.tries()
    b.now += 15
    assert await b.tries()
    a.now += 15  # it wakes: the monotonic clock went on
    assert a.part.seconds_left() == 0
    assert not await a.tries()


async def test_a_leader_that_renews_keeps_the_lease_for_ever(server: LeaseOnServer) -> None:
    a, b = Replica("a", server), Replica("b", server)
    for _ in range(50):
        assert await a.tries()
        assert not await b.tries()
        a.now += 2
        b.now += 2
    assert server.lease is not None
    assert server.lease["spec"]["leaseTransitions"] == 0


async def test_time_counts_from_before_the_request_not_from_its_answer(server: LeaseOnServer) -> None:
    a = Replica("a", server)
    put = server.put

    async def slow(lease: dict[str, Any], new: bool) -> dict[str, Any]:
        a.now += 4
        return await put(lease, new)

    a.part._put = slow
    assert await a.tries()
    assert a.part.seconds_left() == pytest.approx(6)


async def test_who_loses_the_race_for_a_free_lease_does_not_lead(server: LeaseOnServer) -> None:
    a, b = Replica("a", server), Replica("b", server)
    read = server.read

    async def while_b_is_faster() -> dict[str, Any]:
        try:
            return await read()
        finally:
            await b.part.attempt()

    a.part._read = while_b_is_faster
    assert not await a.tries()
    assert b.part.leads


async def test_a_lease_that_was_given_back_is_free_at_once(server: LeaseOnServer) -> None:
    a, b = Replica("a", server), Replica("b", server)
    assert await a.tries()
    assert not await b.tries()
    await a.part.release()
    assert not a.part.leads
    assert await b.tries()
    assert server.lease is not None
    assert server.lease["spec"]["leaseTransitions"] == 1


async def test_a_lease_is_given_back_though_a_last_renewal_lands_in_between(server: LeaseOnServer) -> None:
    a, b = Replica("a", server), Replica("b", server)
    assert await a.tries()
    renewal = await server.read()
    in_mid_air = [renewal]
    read = a.part._read

    async def renewed_after_it_was_read() -> dict[str, Any]:
        lease = await read()
        if in_mid_air:
            await server.put(in_mid_air.pop(), False)
        return lease

    a.part._read = renewed_after_it_was_read
    await a.part.release()
    assert not in_mid_air
    assert await b.tries()


async def test_a_lease_that_is_deleted_under_its_holder_is_not_free_before_the_holder_must_have_noticed(
    server: LeaseOnServer,
) -> None:
    a, b = Replica("a", server), Replica("b", server)
    assert await a.tries()
    assert not await b.tries()
    server.lease = None
    b.now += 1
    assert not await b.tries(), "the holder does not know, and may write"
    assert await a.tries(), "the holder makes it again"
    assert not await b.tries()
    for each in (a, b):
        each.now += 100  # the holder continues, and b does not check for a long time
    assert await a.tries()
    server.lease = None
    assert not await b.tries()
    for _ in range(16):
        a.now += 1
        b.now += 1
        took_over = await b.tries()
        assert not (a.part.leads and took_over), "at no moment do two lead"
    assert took_over


async def test_an_api_server_that_does_not_answer_is_not_taken_for_a_lost_lease(
    server: LeaseOnServer,
) -> None:
    a = Replica("a", server)
    assert await a.tries()
    server.reachable = False
    a.now += 9
    with pytest.raises(UnknownOutcome):
        await a.tries()
    assert a.part.leads, "its time is not over yet"
    a.now += 1
    assert not a.part.leads
