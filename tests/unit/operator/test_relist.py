"""A list of metadata shows what the cache lacks, and only that is read; the result is that of a list of everything."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.operator.state.cache import ClusterCache, Store
from laneway.operator.state.resources import PODS, TRAINING_JOBS, TRAINING_PROFILES, WATCHED, Resource
from laneway.operator.watch.apiserver import ApiError, ApiServer
from laneway.operator.watch.parallel import some_at_a_time
from laneway.operator.watch.relist import METADATA, UNENDED_JOBS, list_kind, relist

_NAMES = [f"profile-{number}" for number in range(40)]


class Server:
    """Lists the objects of one kind, 3 to a page, and counts what it was asked for."""

    def __init__(self, versions: dict[str, int]) -> None:
        self.objects = {name: an_object(name, version) for name, version in versions.items()}
        self.version = max([1, *versions.values()])
        self.asked = Counter[str]()
        self.knows_no_fields = False
        self.meanwhile: Callable[[], object] = lambda: None
        """Called after the last page of metadata."""

    async def request(
        self, method: str, path: str, *, query: dict[str, str], accept: str = "application/json"
    ) -> dict[str, Any]:
        assert method == "GET"
        fields = query.get("fieldSelector", "")
        if fields == UNENDED_JOBS.fields:
            if self.knows_no_fields:
                raise ApiError(400, "BadRequest", "field label not supported: status.state")
            found = [each for _, each in sorted(self.objects.items()) if not each["spec"] % 2]
            self.asked["unended metadata" if accept == METADATA else "unended"] += 1
        else:
            wanted = fields.removeprefix("metadata.name=")
            found = [self.objects[name] for name in sorted(self.objects) if wanted in ("", name)]
            self.asked["metadata" if accept == METADATA else "one" if wanted else "all"] += 1
        first = int(query.get("continue") or 0)
        page = found[first : first + 3]
        if accept == METADATA:
            page = [{"metadata": each["metadata"]} for each in page]
        metadata = {"resourceVersion": str(self.version)}
        if first + 3 < len(found):
            metadata["continue"] = str(first + 3)
        elif accept == METADATA:
            self.meanwhile()
        return {"metadata": metadata, "items": page}


def an_object(name: str, version: int) -> dict[str, Any]:
    uid = f"uid-{name}-{version // 100}"  # a hundred versions later it was deleted and made again
    metadata = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": version}


class Profile:
    """What a store keeps here. It has ended where its spec is odd."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self.name, self.uid, self.spec = raw["metadata"]["name"], raw["metadata"]["uid"], raw["spec"]
        self.finished = bool(self.spec % 2)


def a_store(versions: dict[str, int]) -> Store[Profile]:
    store = Store(lambda raw, before: Profile(raw))
    for name, version in versions.items():
        store.observe(an_object(name, version))
    return store


def listed(server: Server, store: Store[Profile]) -> int:
    return asyncio.run(list_kind(cast(ApiServer, server), store, TRAINING_PROFILES, "ns"))


def listed_unended(server: Server, store: Store[Profile]) -> None:
    asyncio.run(list_kind(cast(ApiServer, server), store, TRAINING_PROFILES, "ns", UNENDED_JOBS))


def specs(store: Store[Profile]) -> dict[str, int]:
    return {each.name: each.spec for each in store.records()}


def test_an_empty_cache_is_filled_by_one_list() -> None:
    server, store = Server(dict.fromkeys(_NAMES[:5], 7)), a_store({})
    assert listed(server, store) == 7
    assert specs(store) == dict.fromkeys(_NAMES[:5], 7)
    assert server.asked == {"all": 2}


def test_nothing_is_read_that_is_known() -> None:
    known = dict.fromkeys(_NAMES, 7)
    server, store = Server(known), a_store(known)
    listed(server, store)
    assert server.asked == {"metadata": 14}


def test_only_what_is_lacking_is_read() -> None:
    known = dict.fromkeys(_NAMES, 7)
    server, store = (
        Server({**known, "profile-3": 9, "profile-5": 108, "new": 8}),
        a_store({**known, "gone": 7}),
    )
    listed(server, store)
    assert specs(store) == {**known, "profile-3": 9, "profile-5": 108, "new": 8}
    assert server.asked == {"metadata": 14, "one": 3}


def test_where_much_is_lacking_everything_is_listed() -> None:
    known = dict.fromkeys(_NAMES, 7)
    server, store = Server(known | dict.fromkeys(_NAMES[:5], 8)), a_store(known)
    listed(server, store)
    assert specs(store) == known | dict.fromkeys(_NAMES[:5], 8)
    assert server.asked == {"metadata": 14, "all": 14}


def test_where_many_have_ended_everything_is_listed() -> None:
    """A replica whose watches were interrupted while it stood by."""
    server, store = Server(dict.fromkeys(_NAMES, 9)), a_store(dict.fromkeys(_NAMES, 2))
    listed_unended(server, store)
    assert specs(store) == dict.fromkeys(_NAMES, 9)
    assert server.asked["one"] == 0


@pytest.mark.parametrize("list_it", [listed, listed_unended], ids=["of everything", "of what has not ended"])
def test_a_version_that_a_newer_list_no_longer_showed_does_not_come_back(
    list_it: Callable[[Server, Store[Profile]], object],
) -> None:
    """kopf listed before, and hands over what it found afterwards."""
    server, store = Server({"ended": 5, "goes on": 2}), a_store({})
    server.version = 300
    list_it(server, store)
    known = specs(store)
    assert not store.observe(an_object("ended", 4))
    assert not store.observe(an_object("deleted", 6))
    assert specs(store) == known
    store.observe(an_object("ended", 5))
    store.observe(an_object("new", 302))
    assert specs(store) == {"ended": 5, "goes on": 2, "new": 302}


def test_an_object_that_goes_after_the_list_is_no_longer_known() -> None:
    known = dict.fromkeys(_NAMES, 7)
    server, store = Server({**known, "profile-3": 9}), a_store(known)
    server.meanwhile = lambda: server.objects.pop("profile-3")
    server.version = 9
    listed(server, store)
    assert specs(store) == {name: 7 for name in _NAMES if name != "profile-3"}


def test_a_read_that_fails_is_not_taken_for_a_list() -> None:
    known = dict.fromkeys(_NAMES, 7)
    server, store = Server({**known, "profile-3": 9}), a_store(known)

    async def fail(*arguments: Any, **more: Any) -> dict[str, Any]:
        if "fieldSelector" in more["query"]:
            raise ApiError(500, "", "etcd is away")
        return await Server.request(server, *arguments, **more)

    server.request = fail  # type: ignore[method-assign]
    with pytest.raises(ApiError, match="etcd is away"):
        listed(server, store)


_VERSIONS = st.dictionaries(st.sampled_from(_NAMES), st.integers(1, 300), max_size=len(_NAMES))


@given(now=_VERSIONS, known=_VERSIONS)
def test_the_cache_is_as_after_a_list_of_everything(now: dict[str, int], known: dict[str, int]) -> None:
    server, store = Server(now), a_store(known)
    server.version = 300
    listed(server, store)
    want = {name: max(now[name], known.get(name, 0)) for name in now}
    assert specs(store) == want


def test_of_what_has_ended_only_what_was_known_otherwise_is_read() -> None:
    """Even numbers have not ended, odd ones have."""
    known = {"ends": 2, "gone": 2, "goes on": 2, "has ended": 3} | dict.fromkeys(_NAMES, 2)
    now = {"ends": 9, "goes on": 2, "has ended": 3, "also ended": 5} | dict.fromkeys(_NAMES, 2)
    server, store = Server(now), a_store(known)
    listed_unended(server, store)
    del now["also ended"]
    assert specs(store) == now
    assert server.asked == {"unended metadata": 14, "one": 2}


def test_an_empty_cache_is_filled_with_what_has_not_ended() -> None:
    server, store = Server({"a": 2, "b": 3, "c": 4}), a_store({})
    listed_unended(server, store)
    assert specs(store) == {"a": 2, "c": 4}
    assert server.asked == {"unended": 1}


@given(now=_VERSIONS, known=_VERSIONS)
def test_what_has_not_ended_is_as_after_a_list_of_everything(
    now: dict[str, int], known: dict[str, int]
) -> None:
    server, store = Server(now), a_store(known)
    server.version = 300
    listed_unended(server, store)
    newest = {name: max(now[name], known.get(name, 0)) for name in now}
    assert {name: spec for name, spec in specs(store).items() if not spec % 2} == {
        name: spec for name, spec in newest.items() if not spec % 2
    }


def test_where_one_namespace_is_refused_all_others_are_listed() -> None:
    stores = defaultdict[Resource, Store[Profile]](lambda: a_store({}))
    asked = list[str]()

    async def request(method: str, path: str, **more: Any) -> dict[str, Any]:
        asked.append(path)
        if path == TRAINING_JOBS.path("gone"):
            raise ApiError(403, "Forbidden", "cannot list trainingjobs in the namespace gone")
        return {"metadata": {"resourceVersion": "7"}, "items": []}

    api = SimpleNamespace(scopes=lambda resource: ("gone", "ns"), request=request)
    cache = SimpleNamespace(store=stores.__getitem__)
    with pytest.raises(ApiError, match="namespace gone"):
        asyncio.run(relist(cast(ApiServer, api), cast(ClusterCache, cache)))
    assert asked == [each.path(namespace) for each in WATCHED for namespace in ("gone", "ns")]


@pytest.mark.parametrize("knows_no_fields", [False, True], ids=["selectable", "an older CRD"])
def test_the_first_list_leaves_out_ended_jobs_where_the_api_server_can(knows_no_fields: bool) -> None:
    server, stores = Server({"a": 2, "b": 3}), defaultdict[Resource, Store[Profile]](lambda: a_store({}))
    server.knows_no_fields = knows_no_fields
    api = SimpleNamespace(scopes=lambda resource: ("ns",), request=server.request)
    cache = SimpleNamespace(store=stores.__getitem__)
    asyncio.run(relist(cast(ApiServer, api), cast(ClusterCache, cache), ended_jobs=False))
    assert specs(stores[TRAINING_JOBS]) == ({"a": 2, "b": 3} if knows_no_fields else {"a": 2})
    assert specs(stores[PODS]) == {"a": 2, "b": 3}


def test_a_list_counts_as_of_the_oldest_answer() -> None:
    """Another API server, which lags, may answer the reads: then a new leader may not rely on them."""
    known = dict.fromkeys(_NAMES, 7)
    server, past, store = Server({**known, "new": 9}), Server(known), a_store(known)

    async def request(*arguments: Any, **more: Any) -> dict[str, Any]:
        return await Server.request(past if "fieldSelector" in more["query"] else server, *arguments, **more)

    assert listed(cast(Server, SimpleNamespace(request=request)), store) == 7
    assert "new" not in specs(store)


async def test_a_fault_of_our_own_does_not_hide_behind_one_of_the_api_server() -> None:
    async def away() -> None:
        raise ApiError(500, "", "etcd is away")

    async def fault() -> None:
        raise KeyError("uid")

    with pytest.raises(KeyError):
        await some_at_a_time([away, fault])


async def test_reads_that_fail_leave_none_under_way() -> None:
    """Else they would end when somebody else already reads the same again."""
    begun, ended = list[int](), list[int]()

    async def read(number: int) -> None:
        begun.append(number)
        await asyncio.sleep(0)
        if number == 0:
            raise ApiError(500, "", "etcd is away")
        await asyncio.sleep(0)
        ended.append(number)

    with pytest.raises(ApiError, match="etcd is away"):
        await some_at_a_time([partial(read, number) for number in range(20)])
    assert begun == list(range(20))
    assert sorted(ended) == list(range(1, 20))
