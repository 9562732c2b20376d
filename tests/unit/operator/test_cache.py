"""The cache never goes back in time, even if updates come late, twice or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.operator.state.cache import ClusterCache, Store, key_of

from tests.unit.operator.builders import a_job, a_pod


def an_object(name: str, version: int, uid: str = "", **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"kind": "Thing", "metadata": metadata, **fields}


def a_store() -> Store[dict[str, Any]]:
    return Store(lambda raw, before: raw, decisive=lambda raw: raw.get("spec"))


def versions(store: Store[dict[str, Any]]) -> dict[str, str]:
    return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in store.records()}


def test_a_late_event_does_not_undo_a_newer_one() -> None:
    store = a_store()
    store.observe(an_object("a", 5))
    assert not store.observe(an_object("a", 3))
    assert not store.observe(an_object("a", 5)), "nor does a doubled one count"
    assert versions(store) == {"a": "5"}


def test_only_what_a_decision_may_hang_on_counts_as_a_change() -> None:
    store = a_store()
    assert store.observe(an_object("a", 1, spec=1))
    assert not store.observe(an_object("a", 2, spec=1, chatter=9))
    assert store.observe(an_object("a", 3, spec=2))


def test_a_version_that_says_nothing_new_leaves_the_record_what_it_was_and_counts_as_heard() -> None:
    changes: list[object] = []
    written: list[str] = []
    store = Store(
        lambda raw, before: (raw["spec"],),
        changed=lambda before, after: changes.append(after),
        written=written.append,
    )
    assert store.observe(an_object("a", 1, spec=1))
    [record] = store.records()
    assert not store.observe(an_object("a", 2, spec=1))
    assert store.records()[0] is record
    assert changes == [record]
    assert written == ["a", "a"]
    assert store.version_of(("ns", "a"), record) == "2", (
        "so a write that was decided from it meets no conflict"
    )
    assert not store.observe(an_object("a", 1, spec=2)), "what is older than the newest version stays so"
    assert written == ["a", "a"]
    assert store.observe(an_object("a", 3, spec=2))
    assert store.version_of(("ns", "a"), record) is None


def test_a_deleted_object_stays_deleted_when_an_older_event_comes_late() -> None:
    store = a_store()
    store.observe(an_object("a", 1))
    assert store.forget(an_object("a", 4)["metadata"])
    assert not store.observe(an_object("a", 3))
    assert versions(store) == {}


def test_an_object_that_was_made_anew_under_its_old_name_is_another() -> None:
    store = a_store()
    store.observe(an_object("a", 1, uid="old"))
    store.observe(an_object("a", 7, uid="new"))
    assert not store.forget(an_object("a", 6, uid="old")["metadata"]), "the late deletion of the old one"
    assert versions(store) == {"a": "7"}


def test_a_list_removes_what_a_watch_missed_and_leaves_what_is_newer() -> None:
    store = a_store()
    for raw in (an_object("stays", 1), an_object("went", 2), an_object("own", 9)):
        store.observe(raw)
    store.observe(an_object("stays", 1))
    store.observe(an_object("came", 3))
    assert store.sweep({("ns", "stays"), ("ns", "came")}, 5, among=None)
    assert versions(store) == {"stays": "1", "came": "3", "own": "9"}


def test_a_list_by_label_says_nothing_about_others() -> None:
    store = a_store()
    store.observe(an_object("mine", 1, spec="x"))
    store.observe(an_object("other", 1, spec="y"))
    store.sweep((), 5, among=lambda record: record["spec"] == "x")
    assert versions(store) == {"other": "1"}


def test_a_list_of_one_namespace_says_nothing_about_others() -> None:
    store = a_store()
    store.observe(an_object("here", 1))
    elsewhere = an_object("here", 1, uid="uid-elsewhere")
    elsewhere["metadata"]["namespace"] = "elsewhere"
    store.observe(elsewhere)
    store.sweep((), 5, among=None, namespace="ns")
    assert [each["metadata"]["namespace"] for each in store.records()] == ["elsewhere"]


def test_an_object_that_cannot_be_read_is_left_out_and_comes_back_when_it_can(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cache = ClusterCache(lambda: 0.0)
    job = a_job().placed("n1").record
    broken = a_pod(job).raw
    del broken["metadata"]["labels"]["laneway.dev/rank"]
    cache.pods.observe(broken)
    assert cache.state(60).pods == {}
    assert "cannot be read" in caplog.text
    cache.pods.sweep((), 9, among=lambda pod: pod.job_uid == "another")
    whole = a_pod(job).raw
    whole["metadata"]["resourceVersion"] = "2"
    assert cache.pods.observe(whole)
    assert [pod.name for pod in cache.state(60).pods[job.uid]] == ["job-0"]


@given(
    st.lists(
        st.tuples(st.sampled_from(["watch", "list", "delete"]), st.sampled_from("ab"), st.integers(1, 6)),
        max_size=30,
    )
)
def test_no_order_of_events_makes_a_version_fall_or_raises_the_dead(
    steps: list[tuple[str, str, int]],
) -> None:
    store = a_store()
    highest: dict[str, int] = {}
    dead: set[str] = set()
    for kind, name, version in steps:
        raw = an_object(name, version)
        if kind == "delete":
            store.forget(raw["metadata"])
            dead.add(name)
        elif kind == "watch":
            store.observe(raw)
        else:
            store.observe(raw)
            store.sweep({key_of(raw["metadata"])}, version, among=None)
        for seen, text in versions(store).items():
            assert int(text) >= highest.get(seen, 0)
            highest[seen] = int(text)
        assert not dead & set(versions(store))
