"""Workers without an owner: which are deleted, which are adopted, and which are foreign."""

from __future__ import annotations

from typing import Any

import pytest
from laneway.api import names
from laneway.operator.execute.orphans import Orphans
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.ownership import Claim, claim_of
from laneway.operator.state.records.worker_pod import WorkerPod, parse_worker_pod

from tests.unit.operator.builders import NOW, a_job, a_pod, a_view

PATIENCE_SECONDS = 60.0
STRANGER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "uid-r", "controller": True}


def stripped(job: JobRecord, rank: int = 0, attempt: int | None = None, **metadata: Any) -> WorkerPod:
    """A worker that runs and has lost its owner reference."""
    raw = a_pod(job, rank, attempt).running().raw
    del raw["metadata"]["ownerReferences"]
    raw["metadata"] |= metadata
    return parse_worker_pod(raw)


def test_an_orphan_is_overdue_only_after_a_while_and_not_when_its_job_is_there() -> None:
    job = a_job().placed("n1").record
    pod = a_pod(job).running().record
    orphans = Orphans(PATIENCE_SECONDS)
    lonely = a_view([], [pod])
    assert orphans.find(lonely, NOW).overdue == ()
    assert orphans.find(lonely, NOW + 60).overdue == (pod,)
    assert orphans.find(a_view([job], [pod]), NOW + 61).overdue == ()
    assert orphans.find(lonely, NOW + 62).overdue == (), "the wait begins again"


def test_an_orphan_whose_name_a_new_job_needs_is_overdue_at_once_and_never_adopted() -> None:
    pod = stripped(a_job().placed("n1").record)
    again = a_job().metadata(uid="uid-again").record
    other = a_job("other").record
    assert Orphans(PATIENCE_SECONDS).find(a_view([other], [pod]), NOW).overdue == ()
    found = Orphans(PATIENCE_SECONDS).find(a_view([again, other], [pod]), NOW)
    assert (found.overdue, found.adoptable, found.mismatched_pods) == ((pod,), (), ())


def test_a_worker_that_lost_its_owner_goes_back_to_its_living_job() -> None:
    job = a_job().gang(2).placed("n1", "n2").running().record
    owned, alone = a_pod(job, 0).running().record, stripped(job, 1)
    assert (owned.owned, alone.owned) == (True, False)
    found = Orphans(PATIENCE_SECONDS).find(a_view([job], [owned, alone]), NOW)
    assert (found.overdue, found.adoptable, found.mismatched_pods) == ((), ((job, alone),), ())


def test_an_adoption_that_did_not_succeed_is_not_tried_in_every_cycle() -> None:
    job = a_job().placed("n1").record
    view, orphans = a_view([job], [stripped(job)]), Orphans(PATIENCE_SECONDS)
    tried = [
        len(orphans.find(view, NOW + after).adoptable)
        for after in (0, 1, PATIENCE_SECONDS, PATIENCE_SECONDS + 1)
    ]
    assert tried == [1, 0, 1, 0]


@pytest.mark.parametrize(
    "change", [{"deletionTimestamp": "2026-01-01T00:00:00Z"}, {"ownerReferences": [STRANGER]}]
)
def test_a_worker_that_is_ending_and_one_of_another_controller_are_not_adopted(
    change: dict[str, Any],
) -> None:
    job = a_job().placed("n1").record
    raw = a_pod(job).running().raw
    raw["metadata"].pop("ownerReferences")
    raw["metadata"] |= change
    if "ownerReferences" in change:
        with pytest.raises(ValueError, match="another controller"):
            parse_worker_pod(raw)
    else:
        assert Orphans(PATIENCE_SECONDS).find(a_view([job], [parse_worker_pod(raw)]), NOW).adoptable == ()


def test_no_worker_is_adopted_by_a_job_that_is_being_deleted() -> None:
    job = a_job().placed("n1").metadata(deletionTimestamp="2026-01-01T00:00:00Z").record
    found = Orphans(PATIENCE_SECONDS).find(a_view([job], [stripped(job)]), NOW)
    assert (found.overdue, found.adoptable, found.mismatched_pods) == ((), (), ())


def test_a_worker_of_an_earlier_attempt_is_left_to_the_job() -> None:
    job = a_job().placed("n1").placed("n1").record
    found = Orphans(PATIENCE_SECONDS).find(a_view([job], [stripped(job, attempt=1)]), NOW)
    assert (found.adoptable, found.mismatched_pods) == ((), ())


def test_a_pod_that_is_elsewhere_than_the_worker_it_claims_to_be_is_an_impostor() -> None:
    there = stripped(a_job().placed("n2").record)
    job = a_job().placed("n1").record
    found = Orphans(PATIENCE_SECONDS).find(a_view([job], [there]), NOW)
    assert (found.adoptable, found.mismatched_pods) == ((), (there,))


def test_a_copy_of_a_worker_is_no_worker() -> None:
    job = a_job().placed("n1").record
    with pytest.raises(ValueError, match="a copy of it"):
        stripped(job, name="my-copy")


@pytest.mark.parametrize(
    ("labels", "owners", "claim"),
    [
        (("j", "u"), [("TrainingJob", "u")], Claim.OWNED),
        (("j", "u"), [], Claim.ADOPTABLE),
        (("j", "u"), [("ReplicaSet", "r")], Claim.FOREIGN),
        (("j", "earlier"), [], Claim.LEFT_OVER),
        (("j", "earlier"), [("TrainingJob", "earlier")], Claim.LEFT_OVER),
        (("j", "earlier"), [("ReplicaSet", "r")], Claim.FOREIGN),
        (("other", "earlier"), [], Claim.FOREIGN),
        (None, [], Claim.FOREIGN),
        (None, [("ReplicaSet", "r")], Claim.FOREIGN),
    ],
)
def test_whose_an_object_is(
    labels: tuple[str, str] | None, owners: list[tuple[str, str]], claim: Claim
) -> None:
    metadata = {
        "labels": {names.JOB_LABEL: labels[0], names.JOB_UID_LABEL: labels[1]} if labels else {},
        "ownerReferences": [{"kind": kind, "uid": uid, "controller": True} for kind, uid in owners],
    }
    assert claim_of(metadata, "j", "u") is claim
