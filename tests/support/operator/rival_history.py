"""The history of rival gangs, moment by moment: every change of their jobs and pods, in the order in which
the API server made them.

The events of two watches have no common order. But one etcd counts the versions of all objects, so the events
sorted by version are the cluster's complete history, even if a watch or its reader was late.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from laneway.api import names

Raw = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Moment:
    """The state after one change."""

    jobs: dict[str, Raw]
    pods: dict[str, Raw]
    """By name, as the jobs."""

    def holders(self) -> dict[str, list[Raw]]:
        """Return the pods of each gang that holds GPUs, that is, with a pod that has not ended."""
        gangs = defaultdict(list)
        for pod in self.pods.values():
            gangs[pod["metadata"]["labels"][names.JOB_LABEL]].append(pod)
        return {name: gang for name, gang in gangs.items() if any(_holds_gpus(pod) for pod in gang)}


@dataclass(slots=True)
class Summary:
    """The summary of a history."""

    whole: Counter[str] = field(default_factory=Counter)
    """By gang: the number of attempts in which all workers ran together."""

    partial: Counter[str] = field(default_factory=Counter)
    """By gang: the number of attempts that were rolled back before all workers ran."""

    moments: int = 0


class History:
    """Records events, in any order of the two kinds, and reports every violation."""

    def __init__(self, workers: int) -> None:
        """The number of workers of each gang."""
        self._workers = workers
        self._events: list[tuple[int, str, str, Raw]] = []
        self.now = Moment({}, {})
        """The events so far."""

    def take(self, kind: str, raw: Raw) -> None:
        """Record an event of a watch: its type and its object."""
        of = "jobs" if raw["kind"] == "TrainingJob" else "pods"
        self._events.append((int(raw["metadata"]["resourceVersion"]), of, kind, raw))
        _apply(self.now, of, kind, raw)

    def all_succeeded(self, number: int) -> bool:
        """Return whether this many jobs exist, all have succeeded, and nothing is held any more."""
        done = [job for job in self.now.jobs.values() if _holds(job, "Complete")]
        return len(done) == number and not self.now.holders()

    def whole_now(self) -> list[list[Raw]]:
        """Return the gangs with all workers running at this moment."""
        return [gang for gang in self.now.holders().values() if self._is_whole(gang)]

    def moments(self) -> Iterator[Moment]:
        """Yield the state after each change, from the first; the same object each time."""
        moment = Moment({}, {})
        for _, of, kind, raw in sorted(self._events, key=lambda event: event[0]):
            _apply(moment, of, kind, raw)
            yield moment

    def check(self) -> Summary:
        """Go through all moments.

        Raises:
            AssertionError: two gangs held GPUs and neither was being rolled back, a GPU was promised twice, a placement was
                incomplete or on an avoided node, an attempt began before the previous one was gone, or a GPU is held at the end.
        """
        found = Summary()
        whole: set[tuple[str, str]] = set()
        begun: set[tuple[str, str]] = set()
        for moment in self.moments():
            found.moments += 1
            holders = moment.holders()
            # An attempt that was rolled back may still be ending beside the next one, on other GPUs.
            stay = sorted(name for name in holders if _holds(moment.jobs.get(name, {}), "Placed"))
            assert len(stay) <= 1, f"two gangs hold GPUs at the same time: {stay}"
            alive = [pod for gang in holders.values() for pod in gang if _holds_gpus(pod)]
            gpus = Counter(gpu for pod in alive for gpu in _gpus_of(pod))
            assert max(gpus.values(), default=0) <= 1, f"promised twice: {gpus}"
            for job in moment.jobs.values():
                self._check_placement(job)
            for name, gang in holders.items():
                attempts = {pod["metadata"]["labels"][names.ATTEMPT_LABEL] for pod in gang}
                assert len(attempts) == 1, f"{name} has workers of attempts {sorted(attempts)}"
                attempt = (name, attempts.pop())
                begun.add(attempt)
                if self._is_whole(gang):
                    whole.add(attempt)
        assert not self.now.holders(), "somebody holds GPUs in the end"
        found.whole.update(name for name, _ in whole)
        found.partial.update(name for name, _ in begun - whole)
        return found

    def _check_placement(self, job: Raw) -> None:
        if not _holds(job, "Placed"):
            return
        status = job["status"]
        assert len(status.get("placement") or ()) == self._workers, "a gang is placed in part"
        nodes = {each["node"] for each in status["placement"]}
        avoided = {each["node"] for each in status.get("avoid") or ()}
        assert not nodes & avoided, f"it is tried again where it could not start: {nodes & avoided}"

    def _is_whole(self, gang: list[Raw]) -> bool:
        """Whether all workers run or have succeeded: a short worker may have ended before the last one is seen to run."""
        return len(gang) == self._workers and all(_phase(pod) in ("Running", "Succeeded") for pod in gang)


def _apply(moment: Moment, of: str, kind: str, raw: Raw) -> None:
    there = moment.jobs if of == "jobs" else moment.pods
    if kind == "DELETED":
        there.pop(raw["metadata"]["name"], None)
    else:
        there[raw["metadata"]["name"]] = raw


def _phase(pod: Raw) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))


def _holds_gpus(pod: Raw) -> bool:
    return _phase(pod) in ("Pending", "Running")


def _gpus_of(pod: Raw) -> list[str]:
    return str(pod["metadata"]["annotations"][names.GPUS_ANNOTATION]).split(",")


def _holds(job: Raw, condition: str) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)
