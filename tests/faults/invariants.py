"""The invariants of every moment, checked against the whole history of a cell: pure.

The history is replayed change by change; each invariant is asked after each of them. So a state that lasted for one version of
one object only is seen as well as the last one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from laneway.api import names
from laneway.api.attempt_status import MOST_ATTEMPTS
from laneway.operator.state.resources import GPU_NODES, TRAINING_JOBS

from tests.faults.history import Change
from tests.faults.moment import Moment, Worker, has_ended, is_true, phase_of, worker_of
from tests.faults.nodes_at_work import Run
from tests.faults.order_invariants import Orders

Raw = dict[str, Any]

CAPACITY = "capacity"
GANG = "gang"
ONCE = "once"
SERVICE = "service"
GRACE = "grace"
ORDERS = "orders"
ONE_WRITER = "one-writer"
END_STATE = "end-state"

ALL = {
    CAPACITY: "no GPU is promised or held beyond what it offers, nor beyond its turns and memory by those that are not paused or offloaded",
    GANG: "a worker is made only for a gang that has all of its GPUs; a gang runs only when all of its workers do",
    ONE_WRITER: "no write lands once another replica has written the lease",
    ONCE: "no worker of an attempt is started twice, none after the end of its job, and none of two attempts at a time",
    SERVICE: "attained service, attempts, restarts, preemptions and rescales never go back; the history has each ended attempt once",
    GRACE: "no running worker is removed without a deletion, nor with less than its grace period",
    ORDERS: "a worker is ordered to pause or offload only after its job's status says so; a job is reported as paused or offloaded only "
    "after its nodes report it; the order stays while the job is paused or offloaded",
    END_STATE: "within the deadline the cluster reaches the same end as with an undisturbed operator, and nothing is left over",
}
"""The invariants, as sentences."""

_PERCENT = 100


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold."""

    invariant: str
    message: str
    version: int

    def __str__(self) -> str:
        return f"{self.invariant} at version {self.version}: {self.message}"


def violations(
    changes: Iterable[Change], runs: Iterable[Run] = (), late: Collection[int] = ()
) -> list[Violation]:
    """Return the violations, in the order in which they happened.

    A leader may lose its lease while its request to create a pod is in flight. The pod may then appear at any later time: the
    API server has preconditions for changes and deletions, but none for creations. If the pod's gang once had its GPUs, the pod
    is not counted: the new leader deletes it, and only the end state matters.

    Args:
        changes: all changes, ordered by version, from before the first job existed.
        runs: the workers that the kubelets started.
        late: the versions created by writes in flight (:meth:`tests.support.api_faults.journal.Journal.late`).
    """
    moment, orders = Moment(), Orders()
    found: list[Violation] = []
    for change in changes:
        before, after = moment.follow(change)
        if change.kind == TRAINING_JOBS.kind:
            broken = [
                *_overbooked(moment),
                *_service_lost(before, after),
                *_history_wrong(before, after),
                *_runs_in_part(before, after, moment),
                *((ORDERS, message) for message in orders.of_job(before, after, moment)),
            ]
        elif change.kind == GPU_NODES.kind:
            broken = [
                *_overbooked(moment),
                *_crowded(moment),
                *((ORDERS, message) for message in orders.of_node(before, after, moment)),
            ]
        else:
            orders.note_pod(after)
            if before is None and after is not None and change.version in late and _was_meant(after, moment):
                moment.late.add(after["metadata"]["uid"])
            broken = [
                *_overbooked(moment),
                *_made_without_intent(before, after, moment),
                *_two_attempts(before, after, moment),
                *_hurried(before, change.object, change.deleted),
            ]
        found += [Violation(invariant, message, change.version) for invariant, message in broken]
    twice = Counter(run.without_uid for run in runs)
    found += [
        Violation(ONCE, f"worker {rank} of {job}'s attempt {attempt} was started {count} times", 0)
        for (job, attempt, rank), count in twice.items()
        if count > 1
    ]
    return found


def _overbooked(moment: Moment) -> Iterator[tuple[str, str]]:
    """Yield the GPUs whose workers hold more than the GPU offers, or whose active workers hold more than 100 %.

    A worker counts once, whether its job's placement, its pod or both show it. A worker that has ended holds nothing. A paused
    or offloaded worker holds its share, but takes no turns.
    """
    ended = {worker_of(pod) for pod in moment.pods.values() if has_ended(pod)}
    holders: dict[str, dict[Worker, int]] = {}
    for uid, job in moment.jobs.items():
        status = job.get("status") or {}
        if is_true(job, "Placed"):
            for worker in status.get("placement") or ():
                key = uid, int(status["attempt"]), int(worker["worker"])
                if key in ended:
                    continue
                for gpu in worker["gpus"]:
                    holders.setdefault(gpu, {})[key] = int(worker["sharePercent"])
    for uid, pod in moment.pods.items():
        if has_ended(pod) or uid in moment.late:
            continue
        gpus = pod["metadata"]["annotations"][names.GPUS_ANNOTATION].split(",")
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        for gpu in gpus:
            holders.setdefault(gpu, {})[worker_of(pod)] = int(limits[names.GPU_PERCENT]) // len(gpus)
    offered = {gpu["uuid"]: int(gpu["allocatablePercent"]) for gpu in moment.gpus}
    aside = moment.standing_aside()
    for gpu, shares in holders.items():
        active = {worker: share for worker, share in shares.items() if worker not in aside}
        if sum(shares.values()) > offered.get(gpu, _PERCENT):
            yield CAPACITY, f"{gpu} holds {_listed(shares, moment)}"
        elif sum(active.values()) > _PERCENT:
            yield CAPACITY, f"{gpu} has turns for {_listed(active, moment)}"


def _listed(shares: Mapping[Worker, int], moment: Moment) -> str:
    who = (
        f"{moment.name(uid)}/{attempt}/{rank}: {share} %" for (uid, attempt, rank), share in shares.items()
    )
    return f"{sum(shares.values())} %: {', '.join(who)}"


def _crowded(moment: Moment) -> Iterator[tuple[str, str]]:
    """Yield the GPUs that report too little memory for their sessions.

    A GPU needs the persistent memory of all sessions on it, plus the largest ephemeral memory of those that take turns.
    """
    living = {uid for uid, pod in moment.pods.items() if not has_ended(pod)}
    for gpu in moment.gpus:
        there = [
            each
            for each in gpu.get("sessions") or ()
            if each["podUID"] in living and each["state"] not in ("Offloaded", "Ended")
        ]
        persistent_bytes = sum(each["persistentBytes"] for each in there)
        largest_bytes = max(
            (each["ephemeralBytes"] for each in there if each["state"] != "Paused"), default=0
        )
        if persistent_bytes + largest_bytes > gpu["allocatableBytes"]:
            who = ", ".join(
                f"{each['pod']}: {each['state']}, {each['persistentBytes']} bytes" for each in there
            )
            yield CAPACITY, f"{gpu['uuid']} has {gpu['allocatableBytes']} bytes: {who}"


def _was_meant(pod: Raw, moment: Moment) -> bool:
    """Whether the gang of a worker has had its GPUs for the worker's attempt, now or before."""
    labels = pod["metadata"]["labels"]
    job = moment.jobs.get(labels[names.JOB_UID_LABEL], {})
    return int((job.get("status") or {}).get("attempt", 0)) >= int(labels[names.ATTEMPT_LABEL])


def _made_without_intent(before: Raw | None, after: Raw | None, moment: Moment) -> Iterator[tuple[str, str]]:
    """The whole gang's GPUs are written down before the first of its workers is made."""
    if before is not None or after is None or after["metadata"]["uid"] in moment.late:
        return
    name, labels = after["metadata"]["name"], after["metadata"]["labels"]
    job = moment.jobs.get(labels[names.JOB_UID_LABEL])
    if job is None:
        yield GANG, f"{name} is made for a job that is not there"
        return
    status = job.get("status") or {}
    if is_true(job, "Complete") or is_true(job, "Failed"):
        yield ONCE, f"{name} is made though its job has ended"
    elif not is_true(job, "Placed") or str(status["attempt"]) != labels[names.ATTEMPT_LABEL]:
        yield (
            GANG,
            f"{name} is made for attempt {labels[names.ATTEMPT_LABEL]}; its job is in attempt {status.get('attempt')}, "
            f"{'placed' if is_true(job, 'Placed') else 'not placed'}",
        )
    elif len(status["placement"]) != (workers := _workers_of_attempt(job)):
        yield GANG, f"{name} is made while {len(status['placement'])} of {workers} workers are placed"


def _workers_of_attempt(job: Raw) -> int:
    """Return how many workers the current attempt is to have: a job with a range keeps those that it was placed with."""
    spec: Raw = job["spec"]
    if "maxWorkers" not in spec:
        return int(spec.get("workers", 1))
    return max(spec["minWorkers"], min(spec["maxWorkers"], job["status"]["attemptWorkers"]))


def _two_attempts(before: Raw | None, after: Raw | None, moment: Moment) -> Iterator[tuple[str, str]]:
    if before is not None or after is None or after["metadata"]["uid"] in moment.late:
        return
    labels = after["metadata"]["labels"]
    for uid, pod in moment.pods.items():
        other = pod["metadata"]["labels"]
        alive = not has_ended(pod) and uid not in moment.late
        if (
            alive
            and other[names.JOB_UID_LABEL] == labels[names.JOB_UID_LABEL]
            and other[names.ATTEMPT_LABEL] != labels[names.ATTEMPT_LABEL]
        ):
            yield (
                ONCE,
                f"{after['metadata']['name']} of attempt {labels[names.ATTEMPT_LABEL]} is made while "
                f"{pod['metadata']['name']} of attempt {other[names.ATTEMPT_LABEL]} lives",
            )


def _hurried(before: Raw | None, now: Raw, deleted: bool) -> Iterator[tuple[str, str]]:
    if before is None or not before["spec"].get("nodeName") or has_ended(before):
        return
    name = now["metadata"]["name"]
    deleting = "deletionTimestamp" in before["metadata"]
    if deleted and not deleting:
        yield GRACE, f"{name} is gone without a deletion"
    grace_seconds = now["metadata"].get("deletionGracePeriodSeconds")
    due_seconds = now["spec"]["terminationGracePeriodSeconds"]
    if not deleting and not deleted and grace_seconds is not None and grace_seconds < due_seconds:
        yield GRACE, f"{name} gets {grace_seconds} of its {due_seconds} s to end"


def _service_lost(before: Raw | None, after: Raw | None) -> Iterator[tuple[str, str]]:
    old, new = ((each or {}).get("status") or {} for each in (before, after))
    if not old or after is None:
        return
    name = after["metadata"]["name"]
    for figure in (
        "attainedServiceGPUMilliseconds",
        "executedMilliseconds",
        "serviceAtPromotionGPUMilliseconds",
    ):
        if new.get(figure, 0) < old.get(figure, 0):
            yield SERVICE, f"{figure} of {name} fell from {old.get(figure)} to {new.get(figure)}"
    for count in ("attempt", "restarts", "preemptions", "rescales"):
        if new.get(count, 0) < old.get(count, 0):
            yield SERVICE, f"{count} of {name} fell from {old.get(count)} to {new.get(count)}"


def _history_wrong(before: Raw | None, after: Raw | None) -> Iterator[tuple[str, str]]:
    """The history has the latest attempts that are over, each once. An entry changes only if its success is noticed late."""
    if after is None:
        return
    old, new = ((each or {}).get("status") or {} for each in (before, after))
    over = int(new.get("attempt", 0)) - is_true(after, "Placed")
    ended = new.get("endedAttempts") or []
    if [each["attempt"] for each in ended] != list(range(max(1, over - MOST_ATTEMPTS + 1), over + 1)):
        yield SERVICE, f"{after['metadata']['name']} has ended {over} attempts; its history is {ended}"
    known = {each["attempt"]: each for each in old.get("endedAttempts") or ()}
    for each in ended:
        if each["outcome"] != "Succeeded" and known.get(each["attempt"], each) != each:
            yield (
                SERVICE,
                f"{after['metadata']['name']} had {known[each['attempt']]} in its history, now {each}",
            )


def _runs_in_part(before: Raw | None, after: Raw | None, moment: Moment) -> Iterator[tuple[str, str]]:
    if after is None or not is_true(after, "Running") or (before is not None and is_true(before, "Running")):
        return
    uid, attempt = after["metadata"]["uid"], str(after["status"]["attempt"])
    started = sum(
        pod["metadata"]["labels"][names.JOB_UID_LABEL] == uid
        and pod["metadata"]["labels"][names.ATTEMPT_LABEL] == attempt
        and phase_of(pod) != "Pending"
        for pod in moment.pods.values()
    )
    workers = _workers_of_attempt(after)
    if started != workers:
        yield GANG, f"{after['metadata']['name']} is said to run with {started} of {workers} workers started"
