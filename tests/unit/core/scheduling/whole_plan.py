"""A plan made from a whole snapshot by a new scheduler, and the check of a whole plan: what other schedulers are compared with."""

from __future__ import annotations

from laneway.scheduling import ClusterSnapshot, InvalidPlan, Job, JobState, Plan, Policies, Scheduler
from laneway.scheduling.validation import Holdings, check_decision

PAUSED = (JobState.PAUSED, JobState.OFFLOADED)


def plan(snapshot: ClusterSnapshot, now_seconds: float, policies: Policies) -> Plan:
    """Return what a scheduler plans that learns the whole snapshot at once."""
    return informed(snapshot, policies).plan(now_seconds)


def next_decision_seconds(snapshot: ClusterSnapshot, now_seconds: float, policies: Policies) -> float | None:
    """Return when time alone may change that plan; None: never."""
    scheduler = informed(snapshot, policies)
    scheduler.decide(now_seconds)
    return scheduler.next_decision_seconds(now_seconds)


def informed(snapshot: ClusterSnapshot, policies: Policies) -> Scheduler:
    """Return a new scheduler that knows the snapshot."""
    scheduler = Scheduler(snapshot.nodes, policies)
    for key, nodes in snapshot.avoid.items():
        scheduler.avoid(key, nodes)
    for job in snapshot.jobs:
        scheduler.observe(job)
    return scheduler


def validate(snapshot: ClusterSnapshot, plan: Plan) -> None:
    """Check a whole plan against the snapshot that it was made from.

    Raises:
        InvalidPlan: with a sentence that names the job, the GPU and the numbers.
    """
    holdings = Holdings(snapshot.nodes)
    for job in snapshot.jobs:
        holdings.observe(job)
    for key, nodes in snapshot.avoid.items():
        holdings.avoid(key, nodes)
    _check_every_job_has_one_fate(holdings.jobs, plan)
    check_decision(holdings, plan)


def _check_every_job_has_one_fate(jobs: dict[str, Job], plan: Plan) -> None:
    fates: dict[str, list[str]] = {key: [] for key in jobs}
    for fate, keys in {
        "start": plan.starts,
        "go on": plan.resumes,
        "yield": plan.preemptions,
        "stay": plan.keeps,
        "wait": plan.waiting,
    }.items():
        for key in keys:
            if key not in fates:
                raise InvalidPlan(f"the plan lets {key} {fate}, and the snapshot has no such job")
            fates[key].append(fate)
    for key, found in fates.items():
        state = jobs[key].state
        if state.is_releasing:
            allowed: tuple[list[str], ...] = ([],)
        elif state in PAUSED:
            allowed = (["go on"], ["wait"], ["yield"])
        elif state is JobState.WAITING:
            allowed = (["wait"],) if jobs[key].suspended else (["start"], ["wait"])
        else:
            allowed = (["yield"],) if jobs[key].suspended else (["yield"], ["stay"])
        if found not in allowed:
            raise InvalidPlan(f"job {key} is {state} and is to {' and '.join(found) or 'do nothing'}")
        if found == ["yield"] and not (jobs[key].preemptible or jobs[key].suspended):
            raise InvalidPlan(f"job {key} is to yield, and it is not preemptible")
