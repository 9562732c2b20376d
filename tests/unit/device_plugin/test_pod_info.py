"""What the plugin reads of a pod."""

from __future__ import annotations

from typing import Any

import pytest
from laneway.api import names
from laneway.api.template_profile import TemplateProfile
from laneway.device_plugin.node_pods import split_lines
from laneway.device_plugin.pod_resources import Holder
from laneway.device_plugin.share_manager import record_of

from tests.support.device_plugin.builders import (
    gpu,
    ids,
    inventory,
    labels_of_worker,
    owner_of_worker,
    pod,
    worker,
)

GPUS = inventory(gpu(0), gpu(1))
ANNOTATIONS = {
    names.TEMPLATE_HASH_ANNOTATION: "abc",
    names.SPANS_GPUS_ANNOTATION: "true",
    names.SHARING_ANNOTATION: "Exclusive",
    names.PROFILE_ANNOTATION: TemplateProfile(persistent_bytes=5, ephemeral_bytes=7).model_dump_json(),
    names.GPUS_ANNOTATION: "GPU-0",
}
"""What only the operator writes."""


def holder(slots: int, index: int = 0) -> Holder:
    return Holder("default", "digits-3", "trainer", frozenset(ids(index, range(slots))))


HOLDER = holder(50)


def test_a_worker_is_written_down_with_its_job() -> None:
    info = worker("digits-3", attempt=2, annotations=ANNOTATIONS)
    record = record_of(holder(100), info, GPUS)

    assert (record.pod, record.pod_uid, record.container) == ("digits-3", "uid-digits-3", "trainer")
    assert (record.job, record.job_uid, record.rank, record.attempt) == ("digits", "job-uid", 3, 2)
    assert (record.template_hash, record.spans_gpus, record.sharing) == ("abc", True, "Exclusive")
    assert record.shares == {"GPU-0": 100}


NO_WORKERS = {
    "annotations only": {"labels": {}, "owners": []},
    "copied labels": {"owners": []},
    "no labels": {"labels": {}},
    "another owner's pod": {"owners": [owner_of_worker("digits-3", "job-uid") | {"kind": "ReplicaSet"}]},
    "a kind of that name of another group": {
        "owners": [owner_of_worker("digits-3", "job-uid") | {"apiVersion": "laneway.example/v1"}]
    },
    "a job of another uid": {"owners": [owner_of_worker("digits-3", "another")]},
    "a job of another name": {"owners": [owner_of_worker("other-3", "job-uid")]},
    "an owner that does not control it": {
        "owners": [owner_of_worker("digits-3", "job-uid") | {"controller": False}]
    },
    "another rank": {"labels": labels_of_worker("digits-4", "job-uid")},
    "no rank": {"labels": labels_of_worker("digits-3", "job-uid") | {names.RANK_LABEL: "first"}},
    "no attempt": {"labels": labels_of_worker("digits-3", "job-uid") | {names.ATTEMPT_LABEL: ""}},
}


@pytest.mark.parametrize("differs", NO_WORKERS.values(), ids=NO_WORKERS.keys())
def test_what_only_the_operator_writes_counts_on_workers_only(differs: dict[str, Any]) -> None:
    forged = worker(
        "digits-3",
        **differs,
        annotations=ANNOTATIONS | {names.MINIMUM_ENFORCEMENT_ANNOTATION: "Watchdog"},
    )

    plain = pod("digits-3", annotations={names.MINIMUM_ENFORCEMENT_ANNOTATION: "Watchdog"})
    assert record_of(holder(100), forged, GPUS) == record_of(holder(100), plain, GPUS)
    assert not forged.is_worker
    assert forged.chosen_gpus == ()


@pytest.mark.parametrize(
    ("held", "offered", "want"),
    [
        (100, 100, "Exclusive"),
        (200, 200, "Exclusive"),
        (100, 200, "Lanes"),
        (99, 100, "Lanes"),
        (1, 100, "Lanes"),
        # It was reduced since.
        (200, 100, "Exclusive"),
    ],
)
def test_exclusive_use_takes_all_ids_of_the_gpu(held: int, offered: int, want: str) -> None:
    wants = worker("digits-3", annotations={names.SHARING_ANNOTATION: "Exclusive"})
    assert record_of(holder(held), wants, inventory(gpu(0, offer=offered))).sharing == want


def test_exclusive_use_takes_all_ids_of_each_gpu() -> None:
    wants = worker("digits-3", annotations={names.SHARING_ANNOTATION: "Exclusive"})
    two = Holder("default", "digits-3", "trainer", holder(100).ids | holder(100, index=1).ids)
    assert record_of(two, wants, GPUS).sharing == "Exclusive"
    assert record_of(two, wants, inventory(gpu(0), gpu(1, offer=200))).sharing == "Lanes"
    assert record_of(two, wants, None).sharing == "Lanes", "what the GPUs offer is not known yet"


def test_the_template_profile_is_recorded() -> None:
    known = TemplateProfile(persistent_bytes=5, ephemeral_bytes=7, framework_bytes=3, iteration_seconds=0.25)
    info = worker("digits-3", annotations={names.PROFILE_ANNOTATION: known.model_dump_json()})
    assert record_of(HOLDER, info, GPUS).profile == known
    assert record_of(HOLDER, worker("digits-3"), GPUS).profile is None


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "[]", '{"persistent_bytes": 1}', '{"persistent_bytes": -1, "ephemeral_bytes": 1}'],
)
def test_an_invalid_profile_is_ignored(text: str) -> None:
    record = record_of(HOLDER, worker("digits-3", annotations={names.PROFILE_ANNOTATION: text}), GPUS)
    assert record.pod_uid == "uid-digits-3"
    assert record.profile is None


def test_the_operators_choice_is_a_list_of_uuids() -> None:
    assert worker("a-0", gpus=" GPU-0 , GPU-1").chosen_gpus == ("GPU-0", "GPU-1")
    assert worker("a-0").chosen_gpus == ()


def test_a_plain_pod_has_no_job() -> None:
    record = record_of(HOLDER, pod("digits-3"), GPUS)

    assert (record.job, record.rank, record.attempt, record.spans_gpus) == (None, None, None, False)
    assert record.pod_uid == "uid-digits-3"


def test_a_pod_with_several_gpus_spans_them_whoever_made_it() -> None:
    two = Holder("default", "digits-3", "trainer", holder(100).ids | holder(100, index=1).ids)
    assert record_of(two, pod("digits-3"), GPUS).spans_gpus


def test_an_unknown_pod_has_no_uid() -> None:
    record = record_of(HOLDER, None, GPUS)

    assert (record.pod, record.pod_uid, record.job) == ("digits-3", "", None)


def test_lines_of_a_watch_are_put_together_from_chunks() -> None:
    events, rest = split_lines(b'{"a"', b': 1}\n{"b": 2}\n{"c"')

    assert events == [{"a": 1}, {"b": 2}]
    assert rest == b'{"c"'
