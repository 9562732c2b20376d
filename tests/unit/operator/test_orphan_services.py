"""Services of gangs: which are deleted, which are adopted, which are foreign, and when each is handled."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from laneway.api import names
from laneway.operator.cycle.writes import JobWrite
from laneway.operator.execute.executor import Executor
from laneway.operator.execute.garbage_collector import GarbageCollector
from laneway.operator.execute.manifests import rendezvous_service
from laneway.operator.execute.orphan_services import OrphanServices, ServiceFindings
from laneway.operator.execute.writer import Writer
from laneway.operator.metrics import Metrics
from laneway.operator.state.cache import ClusterCache
from laneway.operator.state.records.gang_service import GangService, parse_gang_service
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.resources import PODS, SERVICES, TRAINING_JOBS, Resource
from laneway.operator.watch.apiserver import ApiError, ApiServer, Raw
from laneway.operator.watch.relist import list_gang_services

from tests.unit.operator.builders import NOW, JobBuilder, a_job, a_write

PATIENCE_SECONDS = 60.0
STRANGER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "uid-r", "controller": True}
NOTHING = ServiceFindings()


def raw_service(job: JobRecord, **metadata: Any) -> Raw:
    """The Service of a gang as the API server has it; ``ownerReferences=[]``: it has lost its owner."""
    manifest = rendezvous_service(job)
    own = {"uid": f"uid-service-{job.uid}", "resourceVersion": "1"}
    return {**manifest, "metadata": {**manifest["metadata"], **own, **metadata}}


def a_service(job: JobRecord, **metadata: Any) -> GangService:
    """The same, read."""
    service = parse_gang_service(raw_service(job, **metadata))
    assert service is not None
    return service


def a_gang() -> JobBuilder:
    """A gang that runs."""
    return a_job().gang(2).placed("n1", "n2").running()


def test_the_service_of_a_job_that_is_gone_is_overdue_after_a_while_whether_it_names_its_owner_or_not() -> (
    None
):
    job = a_gang().record
    for service in (a_service(job), a_service(job, ownerReferences=[])):
        orphans = OrphanServices(PATIENCE_SECONDS)
        assert orphans.find([service], [], NOW) == NOTHING
        assert orphans.find([service], [], NOW + 60).overdue == (service,)
        assert orphans.find([service], [job], NOW + 61).overdue == ()
        assert orphans.find([service], [], NOW + 62).overdue == (), "the wait begins again"


def test_the_service_of_an_earlier_job_of_the_same_name_is_never_the_later_ones() -> None:
    service = a_service(a_gang().record, ownerReferences=[])
    again = a_gang().metadata(uid="uid-again").record
    orphans = OrphanServices(PATIENCE_SECONDS)
    assert orphans.find([service], [again], NOW) == NOTHING
    assert orphans.find([service], [again], NOW + 60) == ServiceFindings(overdue=(service,))


def test_a_service_that_lost_its_owner_goes_back_to_its_living_job() -> None:
    job = a_gang().record
    alone = a_service(job, ownerReferences=[])
    orphans = OrphanServices(PATIENCE_SECONDS)
    assert orphans.find([alone], [job], NOW) == ServiceFindings(adoptable=((job, alone),))
    assert orphans.find([a_service(job)], [job], NOW) == NOTHING


def test_a_service_is_not_adopted_by_a_job_being_deleted_nor_by_one_in_another_namespace() -> None:
    job = a_gang().record
    going = a_gang().metadata(deletionTimestamp="2026-01-01T00:00:00Z").record
    orphans = OrphanServices(PATIENCE_SECONDS)
    assert orphans.find([a_service(going, ownerReferences=[])], [going], NOW) == NOTHING
    assert orphans.find([a_service(job, ownerReferences=[], namespace="other")], [job], NOW) == NOTHING


@pytest.mark.parametrize(
    "change",
    [
        {"ownerReferences": [STRANGER]},
        {"name": "my-copy"},
        {"labels": None},
        {"labels": {names.JOB_LABEL: "job"}, "ownerReferences": []},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    ],
)
def test_services_of_others_and_one_that_is_on_its_way_out_are_nobodys(change: dict[str, Any]) -> None:
    assert parse_gang_service(raw_service(a_gang().record, **change)) is None


class _Cluster:
    """An API server with some objects that records writes."""

    def __init__(self, *objects: Raw, refuses: int | None = None) -> None:
        kinds = {each.kind: each for each in (PODS, SERVICES, TRAINING_JOBS)}
        self._objects = {
            kinds[each["kind"]].path(each["metadata"]["namespace"], each["metadata"]["name"]): each
            for each in objects
        }
        self._refuses = refuses
        self.written: list[tuple[str, str]] = []
        self.bodies: list[Raw] = []

    @staticmethod
    def scopes(resource: Resource) -> tuple[str | None, ...]:
        """Work in all namespaces."""
        return (None,)

    def remove(self, path: str) -> None:
        """Have an object be gone."""
        del self._objects[path]

    async def request(self, method: str, path: str, **request: Any) -> Raw:
        if method == "GET":
            return self._list() if path == SERVICES.path() else self._get(path)
        self.written.append((method, path))
        self.bodies.append(request["body"])
        if self._refuses is not None:
            raise ApiError(self._refuses, "Refused", "no")
        if method != "POST":
            return self._get(path)
        manifest: Raw = request["body"]
        made = {**manifest, "metadata": {"uid": manifest["metadata"]["name"], **manifest["metadata"]}}
        made["metadata"]["resourceVersion"] = "1"
        self._objects[f"{path}/{made['metadata']['name']}"] = made
        return made

    def _get(self, path: str) -> Raw:
        if path not in self._objects:
            raise ApiError(404, "NotFound", path)
        return self._objects[path]

    def _list(self) -> Raw:
        items = [each for each in self._objects.values() if each["kind"] == "Service"]
        return {"items": items, "metadata": {"resourceVersion": "1"}}


def _executor(api: _Cluster) -> Executor:
    cache, metrics = ClusterCache(), Metrics()
    return Executor(
        Writer(cast(ApiServer, api), cache, metrics, lambda: 10.0),
        metrics,
        cast(Any, SimpleNamespace(identity="a")),
        4,
        unchanged=cast(Any, None),
        ended=lambda soon: None,
        wall=lambda: 0.0,
    )


def _garbage_collector(api: _Cluster) -> GarbageCollector:
    return GarbageCollector(cast(ApiServer, api), _executor(api), 0.0)


async def test_nothing_is_written_where_nothing_is_wrong() -> None:
    job = a_gang()
    api = _Cluster(job.raw, raw_service(job.record))
    await _garbage_collector(api).collect_services([job.record], NOW)
    assert api.written == []
    assert await list_gang_services(cast(ApiServer, api)) == (a_service(job.record),)


async def test_an_overdue_service_is_deleted_by_its_uid_unless_its_job_is_there_after_all() -> None:
    job = a_gang()
    service = raw_service(job.record)
    missed = _Cluster(job.raw, service)
    await _garbage_collector(missed).collect_services([], NOW)
    assert missed.written == []
    gone = _Cluster(service)
    await _garbage_collector(gone).collect_services([], NOW)
    assert gone.written == [("DELETE", SERVICES.path("ns", "job"))]
    assert gone.bodies[0]["preconditions"] == {"uid": service["metadata"]["uid"]}


async def test_a_service_is_adopted_by_its_uid_unless_its_job_is_gone() -> None:
    job = a_gang()
    service = raw_service(job.record, ownerReferences=[])
    there = _Cluster(job.raw, service)
    await _garbage_collector(there).collect_services([job.record], NOW)
    assert there.written == [("PATCH", SERVICES.path("ns", "job"))]
    adopted = there.bodies[0]["metadata"]
    assert adopted["uid"] == service["metadata"]["uid"]
    assert [each["uid"] for each in adopted["ownerReferences"]] == [job.record.uid]
    gone = _Cluster(service)
    await _garbage_collector(gone).collect_services([job.record], NOW)
    assert gone.written == []


@pytest.mark.parametrize("known", [False, True], ids=["deletion", "adoption"])
async def test_one_that_may_not_be_written_to_is_left_until_the_next_look_and_stops_no_other(
    known: bool,
) -> None:
    gangs = [a_job(name).gang(2).placed("n1", "n2") for name in ("one", "other")]
    services = [raw_service(each.record, ownerReferences=[]) for each in gangs]
    api = _Cluster(*services, *(each.raw for each in gangs if known), refuses=403)
    await _garbage_collector(api).collect_services([each.record for each in gangs if known], NOW)
    assert len(api.written) == 2


def _start(job: JobBuilder) -> JobWrite:
    record = job.record
    return a_write(record, record.status, writes_status=False, creates=record.status.placement)


async def test_each_attempt_sees_to_its_service_once_and_writes_only_where_it_is_gone() -> None:
    job = a_job().gang(2).placed("n1", "n2")
    service, posts = SERVICES.path("ns", "job"), ("POST", SERVICES.path("ns"))
    api = _Cluster(job.raw)
    executor = _executor(api)

    async def services_made() -> int:
        api.written.clear()
        executor.begin(_start(job), NOW)
        await executor.end()
        assert not executor.needs_refresh
        assert not executor.refusals
        return api.written.count(posts)

    assert await services_made() == 1
    api.remove(service)
    assert await services_made() == 0, "it is the same attempt"
    job.placed("n1", "n2")
    assert await services_made() == 1
    job.placed("n1", "n2")
    assert await services_made() == 0, "it is there"
