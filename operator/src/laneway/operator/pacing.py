"""Every constant that paces the operator, with its reason: rests between cycles, budgets, retries and back-offs.

What an administrator may want to change is in :mod:`laneway.scheduling.config.operator_config` (``cycle``, ``timeouts``, ``lease``).

| what | how often or how long | why |
| -- | -- | -- |
| a cycle after a change | ``debounceMilliseconds``, at least 3 times the last decision | most time goes to taking changes in |
| a cycle when something is due | at least 100 times the last decision's processor time | due steps can wait for others |
| explanations | ``explanationsPerSecond``, saved up over ``explainSeconds`` | thousands of waiting jobs must not flood etcd |
| figures of a job that runs | a tenth of its running time, ``explainSeconds`` to 300 s; of all jobs together a quarter of ``explanationsPerSecond`` | nor must thousands of running ones |
| a failed write | again after 1 s | the API server needs its time |
| a gang that failed or did not start | doubles from ``restartBackoffSeconds`` to 300 s | a broken job must not spin |
"""

from __future__ import annotations

# ---- rests between cycles

REST_PER_DECISION = 3.0
LONGEST_DEBOUNCE_SECONDS = 1.0
"""While changes keep coming, the rest is a multiple of the last decision: it goes to taking changes in and to writing."""

REST_PER_IDLE_DECISION = 100.0
LONGEST_IDLE_REST_SECONDS = 5.0
SHORTEST_IDLE_REST_SECONDS = 0.05
"""Where nothing changes, the rest is a multiple of the last decision's processor time, a hundredth of a core. With thousands of
running jobs one crosses a threshold of attained service at any time; that can wait for others."""

RETRY_CYCLE_SECONDS = 1.0
"""After a list, or other work beside the cycles, that the API server did not answer."""

FIGURES_WRITTEN_SECONDS = 5.0
"""After a write of figures alone, jobs are looked at again after this time, together: nothing happens to them, and with thousands of
running jobs some figure is written at any time."""

# ---- what one cycle takes on

MEASURED_PER_CYCLE = 100
"""Jobs with only new figures that are reconciled in one cycle, so that a report of every agent is spread over cycles."""

EXPIRED_AT_ONCE = 10
"""Jobs that ended long ago and are being deleted because they expired. Where thousands expire together, as after a shorter time was
configured, they leave room for the writes of other jobs."""

SPEED_SECONDS = 60.0
SPEED_ITERATIONS = 16
"""A job's speed beside others is measured over this time and number of iterations at least: some reports of its nodes, so that a report
that comes late hardly counts."""

STARTING_NEIGHBOUR_SECONDS = 300.0
"""A job beside another one that has trained nothing for this long since its pod started no longer counts as starting: what it does
instead may slow the other one."""

EXPLAINED_PER_CYCLE = 100
_EXPLAINED_PER_SECOND = 1000.0
"""Up to this number of waiting jobs, all are explained in every cycle; beyond it, this number a second: about a fiftieth of a core where each
has a template of its own."""

SUGGESTIONS_PER_CYCLE = 4
"""Each tries several changes of a job's spec in the scheduler, a few milliseconds with thousands of jobs."""

FIRST_ESTIMATE_SECONDS = 1.0
"""A job that is new in line gets its estimate within this; the others within ``estimateSeconds``."""

TEMPLATE_TRIALS_PER_CYCLE = 2
"""Each is a request to the API server."""

SERVICE_SEEN_SECONDS = 10.0
"""While gangs start in a namespace, their Service is looked for this often. If somebody deletes it, the next attempts have it again."""

# ---- statuses with only new figures and sentences

DEFERRED_AGAIN_SECONDS = 1.0
"""Deferred statuses are looked at again after this at the earliest."""

STARTING_TOLD_SECONDS = 15.0
"""How far a gang has come is told from then on after its placement: most gangs run by then, and that is one write less of each start."""

_FIGURES_AGE_RATIO = 0.1
_LONGEST_FIGURES_SECONDS = 300.0
"""The figures of a job that runs are at most a tenth of its running time old, and at most this: with thousands of running jobs, some
figure is new at any time. The metrics have them at once."""

_FIGURES_RATIO_OF_EXPLANATIONS = 0.25
"""The part of the writes that only explain which the figures of all running jobs may take together. With thousands of jobs figures
are older for that, but never older than half the job's running time."""

MANY_STARTS = 32
EXPLANATIONS_RATIO_WHILE_MANY_START = 0.1
"""While more jobs than this start, this part of the allowance for explanations remains: the API server is busy with pods."""

# ---- service

WATCHED_SECONDS = 60.0
"""A job that has run for this while the operator watched is taken to have its lanes. From then on, a missing lane takes no service
back."""

# ---- writes

RETRY_WRITE_SECONDS = 1.0
"""A job's or a node's writes rest for this after the API server did not answer, or failed itself."""

LAST_WRITES_SECONDS = 3.0
LAST_EVENTS_SECONDS = 3.0
"""For writes and events when this replica ends: together well within a pod's grace period, and within the lease's duration."""

BETWEEN_EVENTS_SECONDS = 0.005
"""Rest after each event, so at most 200 a second: thousands are written within two minutes, and leave room for statuses."""

# ---- CPUs of workers

DIVIDED_AGAIN_SECONDS = 1.0
"""CPUs are divided among the running jobs at most so often, and at once where jobs start: it costs time for every job that runs."""

CPUS_AWAITED_SECONDS = 30.0
"""The pods of a job that starts wait no longer than this for CPUs that others are to give back: a kubelet takes seconds, and one that cannot
change them may never do it. Then kube-scheduler says what is missing, and the job starts elsewhere."""

RESIZE_RETRY_SECONDS = 10.0
"""A pod whose CPUs the API server did not change, without a refusal, rests for this."""

RESIZES_UNAVAILABLE_SECONDS = 3600.0
"""An API server that cannot resize pods, or does not let the operator, is asked again after this: somebody has to upgrade it, or to give
the right."""

WAITING_PODS_SECONDS = 10.0
"""While CPUs are lent, other pods that wait for CPUs are looked for this often: a list of few objects."""

PROBE_SECONDS = 30.0
PROBE_ITERATIONS = 16
"""A job's speed with some CPUs is measured over this time and number of iterations at least: a job is tried with three numbers of CPUs in
its first minutes."""

PROBE_LONGEST_SECONDS = 300.0
"""A job whose speed is not known after this is not tried any more in this attempt."""

# ---- TrainingProfiles

PROFILE_WRITTEN_SECONDS = 10.0
"""Shortest time between two writes of one profile: what its jobs show meanwhile is written together."""

PROFILES_WRITTEN_PER_CYCLE = 20
"""No job waits for a profile, so they leave room for statuses."""

PROFILE_RETRY_SECONDS = 60.0
"""A profile that could not be written, for example because of a quota, or deleted, is tried again after this."""

END_SETTLED_SECONDS = 2.0
"""A job's end is counted in its template's profile after this: by then the statuses of all jobs that ended at the same time, or
before, have been written."""

END_COUNTS_SECONDS = 300.0
"""For this long after its end a job counts, if the profile could not be written earlier. Afterwards it costs nothing."""

PROFILES_PER_NAMESPACE = 500
"""Those unused for longest give way. A profile has 1 to 3 KiB, in etcd and in the operator's memory."""

PROFILE_UNUSED_SECONDS = 90 * 24 * 3600.0
"""A profile is deleted when no job of the template has started for so long. A quarter of a year lies between two rounds of many
projects; later the code has changed."""

# ---- watches and lists

WATCH_RETRY_SECONDS = (1.0, 1.0, 2.0, 3.0, 5.0)
"""After the first failure of a watch in a row, the second, ..., and all further ones: the watches are back within seconds after an
outage of the API server, and they never give up."""

WATCH_SERVER_SECONDS = 300
"""The API server ends a watch after this, and the next one begins."""

HEARTBEAT_LISTS_PER_SILENCE = 4
"""The agents' Leases are listed this often in ``silentNodeSeconds``: by default every 10 s, as often as an agent renews."""

MISSED_DELETIONS_SECONDS = 30.0
"""After kopf listed objects, everything is listed again for deletions that its watch missed, at most so often. kopf hands a long
list over object by object."""

LONGEST_LAG_SECONDS = 30.0
"""How long a new leader waits for lists that show its lease. An API server that lags catches up within seconds. Where it never
does, leases have an etcd of their own, whose versions say nothing about others."""

CRD_POLL_SECONDS = 2.0
"""Until the API server serves our kinds."""

# ---- retries of jobs; their back-off is in laneway.scheduling.model.retries

ENDED_HOLD_SECONDS = 10.0
"""An elastic job that starts again holds the GPUs of an ended worker for this long, if the pod is not gone before."""

LATE_SECONDS = 60.0
"""Workers end late that have a longer grace period, or are there for this long after it: no job is stopped to get their GPUs as one more
worker. It would wait for longer than its restart costs."""

NAME_TAKEN_SECONDS = 10.0
"""The workers of a deleted job end within their grace period; whether they have is tried after this."""


def debounce_seconds(debounce_milliseconds: int, decision_seconds: float) -> float:
    """Return how long the engine waits for further changes after one; ``decision_seconds``: the last decision's duration."""
    busy_seconds = min(REST_PER_DECISION * decision_seconds, LONGEST_DEBOUNCE_SECONDS)
    return max(debounce_milliseconds / 1000, busy_seconds)


def idle_seconds(due_in_seconds: float, decision_cpu_seconds: float) -> float:
    """Return how long the engine waits where nothing changes.

    Args:
        due_in_seconds: until something is due; overdue steps must not turn the loop into a busy one.
        decision_cpu_seconds: processor time of the last decision.
    """
    rest_seconds = min(REST_PER_IDLE_DECISION * decision_cpu_seconds, LONGEST_IDLE_REST_SECONDS)
    return max(due_in_seconds, rest_seconds, SHORTEST_IDLE_REST_SECONDS)


def figures_interval_seconds(
    explain_seconds: float, explanations_per_second: float, ran_seconds: float, running: int
) -> float:
    """Return the time between two writes of new figures of a job.

    Args:
        explain_seconds: at least.
        explanations_per_second: writes of all jobs together that only explain.
        ran_seconds: how long the job has run.
        running: how many jobs run.
    """
    turn_seconds = running / (_FIGURES_RATIO_OF_EXPLANATIONS * explanations_per_second)
    of_its_time_seconds = min(_FIGURES_AGE_RATIO * ran_seconds, _LONGEST_FIGURES_SECONDS)
    return max(explain_seconds, of_its_time_seconds, min(turn_seconds, ran_seconds))


def explain_interval_seconds(waiting: int) -> float:
    """Return how long explanations stay good enough with this number of waiting jobs."""
    return 0.0 if waiting <= EXPLAINED_PER_CYCLE else waiting / _EXPLAINED_PER_SECOND
