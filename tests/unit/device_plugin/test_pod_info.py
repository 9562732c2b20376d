"""What the plugin reads of a pod."""

from __future__ import annotations

import pytest
from laneway.api import names
from laneway.api.template_profile import TemplateProfile
from laneway.device_plugin.node_pods import split_lines
from laneway.device_plugin.pod_resources import Holder
from laneway.device_plugin.share_manager import record_of

from tests.support.device_plugin.builders import ids, pod

WORKER = {
    "labels": {
        names.JOB_LABEL: "digits",
        names.JOB_UID_LABEL: "job-uid",
        names.RANK_LABEL: "3",
        names.ATTEMPT_LABEL: "2",
    },
    "annotations": {
        names.TEMPLATE_HASH_ANNOTATION: "abc",
        names.SPANS_GPUS_ANNOTATION: "true",
        names.SHARING_ANNOTATION: "Exclusive",
    },
}
HOLDER = Holder("default", "digits-3", "trainer", frozenset(ids(0, range(50))))


def test_a_worker_is_written_down_with_its_job() -> None:
    record = record_of(HOLDER, pod("digits-3", gpus=" GPU-0 , GPU-1", **WORKER))

    assert (record.pod, record.pod_uid, record.container) == ("digits-3", "uid-digits-3", "trainer")
    assert (record.job, record.job_uid, record.rank, record.attempt) == ("digits", "job-uid", 3, 2)
    assert (record.template_hash, record.spans_gpus, record.sharing) == ("abc", True, "Exclusive")
    assert record.shares == {"GPU-0": 50}


def test_the_template_profile_is_recorded() -> None:
    known = TemplateProfile(persistent_bytes=5, ephemeral_bytes=7, framework_bytes=3, iteration_seconds=0.25)
    worker = pod("digits-3", annotations={names.PROFILE_ANNOTATION: known.model_dump_json()})
    assert record_of(HOLDER, worker).profile == known
    assert record_of(HOLDER, pod("digits-3")).profile is None


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "[]", '{"persistent_bytes": 1}', '{"persistent_bytes": -1, "ephemeral_bytes": 1}'],
)
def test_an_invalid_profile_is_ignored(text: str) -> None:
    record = record_of(HOLDER, pod("digits-3", annotations={names.PROFILE_ANNOTATION: text}))
    assert record.pod_uid == "uid-digits-3"
    assert record.profile is None


def test_the_operators_choice_is_a_list_of_uuids() -> None:
    assert pod("a", gpus=" GPU-0 , GPU-1").chosen_gpus == ("GPU-0", "GPU-1")
    assert pod("a").chosen_gpus == ()


def test_a_plain_pod_has_no_job() -> None:
    record = record_of(HOLDER, pod("digits-3"))

    assert (record.job, record.rank, record.attempt, record.spans_gpus) == (None, None, None, False)
    assert record.pod_uid == "uid-digits-3"


def test_an_unknown_pod_has_no_uid() -> None:
    record = record_of(HOLDER, None)

    assert (record.pod, record.pod_uid, record.job) == ("digits-3", "", None)


def test_labels_that_are_no_numbers_are_not_ranks() -> None:
    odd = pod("a", labels={names.RANK_LABEL: "first", names.ATTEMPT_LABEL: ""})

    assert (odd.rank, odd.attempt) == (None, None)


def test_lines_of_a_watch_are_put_together_from_chunks() -> None:
    events, rest = split_lines(b'{"a"', b': 1}\n{"b": 2}\n{"c"')

    assert events == [{"a": 1}, {"b": 2}]
    assert rest == b'{"c"'
