"""The claims of the demo, each checked against the collected evidence. A check returns the violations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hack.demo.evidence import Evidence
from hack.demo.jobs import describe
from hack.demo.output import WorkerOutput
from hack.demo.sharing import shared_gpu
from hack.demo.turns import by_lane, handovers, overlaps_across_lanes, overlaps_within_lanes

LANES = ("lane-a", "lane-b", "lane-c")
GANG = "gang"
ELASTIC = "elastic"
LONG = "long"
SHORT = ("short-1", "short-2")
NEVER_FITS = "never-fits"
OUTGROWS = "outgrows"
LEAST_ACCURACY = 0.9
"""Of the elastic job. Guessing reaches 0.1; 0.96 to 0.98 is usual."""

HALF = ("half-1", "half-2", "half-3")


@dataclass(frozen=True)
class Claim:
    """A numbered claim. `check` returns its violations, `shown` the evidence that it holds."""

    number: int
    text: str
    check: Callable[[Evidence], list[str]]
    shown: Callable[[Evidence], str]


def lanes(evidence: Evidence) -> list[str]:
    """Two jobs share a lane of a GPU; a third uses another lane of it."""
    problems = _not_succeeded(evidence, LANES)
    turns = evidence.turns_of(*LANES)
    gpus = {(turn.node, turn.gpu) for turn in turns}
    if len(gpus) != 1:
        problems.append(f"the three jobs took turns on {len(gpus)} GPUs, not on one")
    shared = [lane for lane in by_lane(turns).values() if len({turn.job for turn in lane}) > 1]
    if not shared:
        problems.append("no two of the three jobs shared a lane")
    elif max(handovers(turns).values()) < 2:
        problems.append("the jobs of the shared lane did not take turns: the lane changed hands at most once")
    for one, other in overlaps_within_lanes(evidence.turns):
        problems.append(
            f"in lane {one.lane} of {one.gpu} turn {other.turn} of {other.job} began "
            f"{one.end_seconds - other.start_seconds:.3f} s before turn {one.turn} of {one.job} ended"
        )
    if not overlaps_across_lanes(turns):
        problems.append(
            "no turn of one lane overlapped a turn of the other lane: the lanes did not run in parallel"
        )
    return problems


def gang(evidence: Evidence) -> list[str]:
    """A gang of four workers runs on both nodes."""
    problems = _not_succeeded(evidence, (GANG,))
    placement = evidence.placements.get(GANG, ())
    if len(placement) != 4:
        problems.append(f"the gang was placed with {len(placement)} workers, not 4")
    if len(evidence.nodes_of(GANG)) < 2:
        problems.append(f"the gang ran on {', '.join(evidence.nodes_of(GANG)) or 'no node'} only")
    if len(evidence.pods.get(GANG, ())) != 4 and not problems:
        problems.append(
            f"the gang needed {len(evidence.pods.get(GANG, ()))} pods, not 4: it started more than once"
        )
    return problems


def preemption(evidence: Evidence) -> list[str]:
    """Short jobs preempt a long one; it saves a checkpoint and resumes from it."""
    problems = _not_succeeded(evidence, (LONG, *SHORT))
    job = evidence.jobs.get(LONG)
    if job is None or job.status.preemptions < 1:
        return [*problems, f"{LONG} was never preempted"]
    attempts = evidence.outputs.get(LONG, ())
    if len(attempts) < 2:
        return [*problems, f"{LONG} was preempted and ran {len(attempts)} attempts"]
    problems += _repeated_or_missing(LONG, attempts)
    target, end = _field(attempts[0], "start", "target"), _step(attempts[-1], "end")
    if end is None or end != target:
        problems.append(f"{LONG} ended at step {end}, its target is {target}")
    return problems


def elastic(evidence: Evidence) -> list[str]:
    """A job gets a second worker while it trains: it resumes from its checkpoint, and trains no step twice."""
    problems = _not_succeeded(evidence, (ELASTIC,))
    attempts = evidence.outputs.get(ELASTIC, ())
    workers = [_field(attempt, "start", "workers") for attempt in attempts]
    if len(set(workers)) < 2:
        return [*problems, f"{ELASTIC} ran with {workers} workers: it was not rescaled while it trained"]
    problems += _repeated_or_missing(ELASTIC, attempts)
    target, end = _field(attempts[0], "start", "target"), _step(attempts[-1], "end")
    if end is None or end != target:
        problems.append(f"{ELASTIC} ended at step {end}, its target is {target}")
    accuracy = evidence.accuracies.get(ELASTIC, 0.0)
    if accuracy < LEAST_ACCURACY:
        problems.append(f"{ELASTIC} ended with an accuracy of {accuracy:.1%}, below {LEAST_ACCURACY:.0%}")
    return problems


def never_fits(evidence: Evidence) -> list[str]:
    """A job that never fits reports the reason and what would start it."""
    job = evidence.jobs.get(NEVER_FITS)
    if job is None:
        return [f"{NEVER_FITS} does not exist"]
    waiting = job.status.waiting
    problems = []
    if evidence.pods.get(NEVER_FITS):
        problems.append(f"{NEVER_FITS} got pods")
    if waiting is None:
        return [*problems, f"{NEVER_FITS} is not reported as waiting; it is {job.state}"]
    if not waiting.message:
        problems.append(f"{NEVER_FITS} gives no reason for waiting")
    if not waiting.unblock:
        problems.append(f"{NEVER_FITS} does not name what would start it")
    return problems


def outgrows(evidence: Evidence) -> list[str]:
    """A job that exceeds its memory quota fails alone, with the limit in its message; its lane continues."""
    job = evidence.jobs.get(OUTGROWS)
    if job is None or not job.has("Failed"):
        return [f"{OUTGROWS} did not fail: it is {job.state if job else 'missing'}"]
    problems = []
    limit = _mebibytes(evidence.quota_bytes.get(OUTGROWS, 0))
    if limit not in job.message("Failed"):
        problems.append(
            f"the message of {OUTGROWS} does not name its limit of {limit}: {job.message('Failed')}"
        )
    own = evidence.turns_of(OUTGROWS)
    if not own:
        return [*problems, f"{OUTGROWS} never had a turn"]
    last = own[-1]
    mates = [turn for turn in evidence.turns if turn.lane_key == last.lane_key and turn.job != OUTGROWS]
    if not any(turn.start_seconds >= last.end_seconds for turn in mates):
        problems.append(
            f"no other job took a turn in lane {last.lane} of {last.gpu} after {OUTGROWS} had failed"
        )
    problems += _not_succeeded(evidence, sorted({turn.job for turn in mates}))
    return problems


def sharing(evidence: Evidence) -> list[str]:
    """A job that leaves half of its GPU's time is measured alone, a second one joins it, and both go on."""
    problems = _not_succeeded(evidence, HALF)
    problems += [
        f"{name} was preempted: {evidence.preempted_by.get(name, '')}"
        for name in HALF
        if name in evidence.jobs and evidence.jobs[name].status.preemptions
    ]
    shared = shared_gpu(evidence.turns_of(*HALF))
    if shared is None:
        return [*problems, f"no GPU had turns of two of {', '.join(HALF)} at a time"]
    if not shared.alone_pace:
        problems.append(f"{shared.first} trained no iteration alone before {shared.second} came")
    problems += [f"{name} did not go on beside the other" for name, pace in shared.paces.items() if not pace]
    return problems


def _lanes_shown(evidence: Evidence) -> str:
    turns = evidence.turns_of(*LANES)
    lanes_of = by_lane(turns)
    parts = [
        f"lane {lane}: {len(taken)} turns of {', '.join(sorted({turn.job for turn in taken}))}"
        for (_, _, lane), taken in sorted(lanes_of.items())
    ]
    overlaps = overlaps_across_lanes(turns)
    return f"{'; '.join(parts)}; {overlaps} of them began during a turn of the other lane, none during a turn of its own lane"


def _gang_shown(evidence: Evidence) -> str:
    placement = evidence.placements.get(GANG, ())
    return ", ".join(f"worker {worker.worker} on {worker.node}" for worker in placement)


def _preemption_shown(evidence: Evidence) -> str:
    lives = [
        f"attempt {attempt.attempt} from step {_step(attempt, 'start', last=False)} to "
        f"{_step(attempt, 'end') or _step(attempt, 'checkpoint')}"
        for attempt in evidence.outputs.get(LONG, ())
    ]
    return f"{', '.join(lives)}; {evidence.preempted_by.get(LONG, '')}"


def _elastic_shown(evidence: Evidence) -> str:
    lives = [
        f"attempt {attempt.attempt} with world size {_field(attempt, 'start', 'workers')} from step "
        f"{_step(attempt, 'start', last=False)} to {_step(attempt, 'end') or _step(attempt, 'checkpoint')}"
        for attempt in evidence.outputs.get(ELASTIC, ())
    ]
    job = evidence.jobs.get(ELASTIC)
    rescale = None if job is None else job.status.rescale
    cost_seconds = 0.0 if rescale is None else (rescale.cost_milliseconds or 0) / 1000
    accuracy = evidence.accuracies.get(ELASTIC, 0.0)
    return f"{', '.join(lives)}; {cost_seconds:.1f} s between without training; accuracy {accuracy:.1%}"


def _never_fits_shown(evidence: Evidence) -> str:
    job = evidence.jobs.get(NEVER_FITS)
    waiting = job.status.waiting if job else None
    return f"{waiting.message} {waiting.unblock}" if waiting else ""


def _outgrows_shown(evidence: Evidence) -> str:
    job = evidence.jobs.get(OUTGROWS)
    lines = job.message("Failed").splitlines() if job else []
    return next((line for line in lines if "Laneway:" in line), lines[-1] if lines else "")


def _sharing_shown(evidence: Evidence) -> str:
    shared = shared_gpu(evidence.turns_of(*HALF))
    if shared is None:
        return ""
    speeds = " and ".join(
        f"{name} at {pace:.1f} iterations a second with {shared.turns[name]} turns"
        for name, pace in shared.paces.items()
    )
    alone = "".join(
        f"; {name}, on another GPU meanwhile, at {pace:.1f}"
        for name, pace in shared.elsewhere.items()
        if pace
    )
    waited = evidence.waited.get(shared.second, "")
    return (
        f"{shared.second} joined {shared.first} on {shared.gpu} of {shared.node}; for {shared.seconds:.0f} s both trained there, "
        f"{speeds}{alone}. While {shared.second} waited: {waited}"
    )


CLAIMS = (
    Claim(1, "turns overlap across lanes and never within a lane", lanes, _lanes_shown),
    Claim(2, "a gang of four workers runs on both nodes", gang, _gang_shown),
    Claim(3, "a preempted job saves a checkpoint and resumes from it", preemption, _preemption_shown),
    Claim(
        4, "a job that never fits reports the reason and what would start it", never_fits, _never_fits_shown
    ),
    Claim(5, "a job that exceeds its share fails alone, and its lane continues", outgrows, _outgrows_shown),
    Claim(
        6, "a job joins another that leaves half of its GPU's time, and both go on", sharing, _sharing_shown
    ),
    Claim(7, "a rescaled job resumes with more workers and trains no step twice", elastic, _elastic_shown),
)


def _not_succeeded(evidence: Evidence, jobs: Sequence[str]) -> list[str]:
    problems = []
    for name in jobs:
        job = evidence.jobs.get(name)
        if job is None:
            problems.append(f"{name} does not exist")
        elif not job.has("Complete"):
            problems.append(f"{name} did not succeed: {describe(job, name)}")
    return problems


def _repeated_or_missing(name: str, attempts: Sequence[WorkerOutput]) -> list[str]:
    """Return where an attempt of a job did not begin at the step that the one before it saved."""
    problems = []
    for before, after in pairwise(attempts):
        saved, resumed = _step(before, "checkpoint"), _step(after, "start", last=False)
        if saved is None or resumed is None:
            problems.append(f"{name}: attempt {before.attempt} or {after.attempt} did not print its step")
        elif resumed < saved:
            problems.append(
                f"{name}: attempt {after.attempt} began after step {resumed}, though attempt {before.attempt} had a "
                f"checkpoint of step {saved}: {saved - resumed} steps were trained twice"
            )
        elif resumed > saved:
            problems.append(
                f"{name}: attempt {after.attempt} began after step {resumed}, never trained beyond {saved}"
            )
    return problems


def _step(output: WorkerOutput, event: str, *, last: bool = True) -> int | None:
    return _field(output, event, "step", last=last)


def _field(output: WorkerOutput, event: str, name: str, *, last: bool = False) -> int | None:
    found = [each[name] for each in output.events if each.get("event") == event and name in each]
    return int(found[-1 if last else 0]) if found else None


def _mebibytes(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.1f} MiB"
