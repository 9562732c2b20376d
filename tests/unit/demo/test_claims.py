"""The demo's claims hold on the evidence of a good run, and each reports the violations of a bad one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hack.demo import claims
from hack.demo.evidence import Evidence
from hack.demo.jobs import JobView, job_view
from hack.demo.output import WorkerOutput
from hack.demo.turns import Turn, overlaps_across_lanes, overlaps_within_lanes


def job(name: str, *, ended: str = "Complete", message: str = "well", **status: Any) -> JobView:
    """A job that ended, unless ``ended`` is empty."""
    conditions = [
        {
            "type": ended,
            "status": "True",
            "reason": "R",
            "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
    metadata = {"name": name, "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return job_view(
        {
            "metadata": metadata,
            "spec": {"workers": 1},
            "status": {"conditions": conditions if ended else [], **status},
        }
    )


def turn(job_name: str, lane: int, start: float, end: float, number: int = 1) -> Turn:
    return Turn("n1", "GPU-0", lane, number, job_name, f"{job_name}-0", start, end, 1)


def half(job_name: str, start: float, end: float, iterations: int, lane: int = 0) -> Turn:
    return Turn("n2", "GPU-7", lane, 1, job_name, f"{job_name}-0", start, end, iterations)


def halves() -> list[Turn]:
    """half-3 joins half-1 after 10 s; alone half-1 trains 5 iterations a second, then both train 4. half-2 trains 5 on another GPU."""
    return [
        half("half-1", 0, 10, 50),
        half("half-1", 10, 15, 20),
        half("half-1", 15, 20, 20),
        half("half-3", 10, 20, 40, lane=1),
        Turn("n1", "GPU-8", 0, 1, "half-2", "half-2-0", 0, 14, 70),
    ]


def output(attempt: int, *events: dict[str, Any]) -> WorkerOutput:
    return WorkerOutput("long", 0, attempt, ["step 50 loss 0.1", *(json.dumps(event) for event in events)])


def good() -> Evidence:
    """What a good run leaves."""
    evidence = Evidence()
    workers = [
        {"worker": rank, "node": f"n{rank % 2}", "gpus": ["GPU-1"], "sharePercent": 100} for rank in range(4)
    ]
    waiting = {"reason": "NotEnoughGPUs", "message": "It needs 20 GPUs.", "unblock": "Ask for fewer."}
    evidence.see_jobs(
        {
            **{name: job(name) for name in (*claims.LANES, *claims.SHORT, *claims.HALF)},
            "gang": job("gang", placement=workers),
            "long": job("long", preemptions=1),
            "elastic": job("elastic"),
            "outgrows": job("outgrows", ended="Failed", message="Laneway: out of memory: may hold 24.8 MiB"),
            "never-fits": job("never-fits", ended="", waiting=waiting),
        }
    )
    evidence.pods = {"gang": {"a", "b", "c", "d"}}
    evidence.quota_bytes = {"outgrows": 26_004_685}
    evidence.turns = [
        turn("lane-a", 0, 0, 1),
        turn("lane-b", 1, 0.5, 1.5),
        turn("lane-c", 0, 1, 2),
        turn("outgrows", 1, 1.5, 1.8),
        turn("lane-a", 0, 2, 3),
        turn("lane-b", 1, 1.9, 4),
        turn("lane-c", 0, 3, 4),
        *halves(),
    ]
    evidence.waited = {"half-3": "It is worth waiting."}
    evidence.outputs = {
        "long": [
            output(1, {"event": "start", "step": 0, "target": 80}, {"event": "checkpoint", "step": 33}),
            output(2, {"event": "start", "step": 33, "target": 80}, {"event": "end", "step": 80}),
        ],
        "elastic": elastic_attempts(),
    }
    evidence.accuracies = {"elastic": 0.97}
    return evidence


def elastic_attempts(*, workers: int = 2, resumed: int = 60, end: int = 90) -> list[WorkerOutput]:
    """A job that begins with one worker and saves step 60."""
    start = {"event": "start", "target": 90}
    return [
        output(1, {**start, "step": 0, "workers": 1}, {"event": "checkpoint", "step": 60}),
        output(2, {**start, "step": resumed, "workers": workers}, {"event": "end", "step": end}),
    ]


def _elastic(**attempts: int) -> Callable[[Evidence], None]:
    def spoil(evidence: Evidence) -> None:
        evidence.outputs = {"elastic": elastic_attempts(**attempts)}

    return spoil


@pytest.mark.parametrize("claim", claims.CLAIMS, ids=lambda claim: claim.text)
def test_a_good_run_holds_and_shows_it(claim: claims.Claim) -> None:
    assert claim.check(good()) == []
    assert claim.shown(good())


def _second_attempt_from(step: int) -> Callable[[Evidence], None]:
    def spoil(evidence: Evidence) -> None:
        first, _ = evidence.outputs["long"]
        second = output(2, {"event": "start", "step": step, "target": 80}, {"event": "end", "step": 80})
        evidence.outputs = {"long": [first, second]}

    return spoil


def _with_turns(*turns: Turn) -> Callable[[Evidence], None]:
    def spoil(evidence: Evidence) -> None:
        evidence.turns = turns

    return spoil


def _with_job(view: JobView) -> Callable[[Evidence], None]:
    def spoil(evidence: Evidence) -> None:
        evidence.jobs[view.name] = view

    return spoil


def _one_node(evidence: Evidence) -> None:
    placement = evidence.placements["gang"]
    evidence.placements["gang"] = tuple(worker.model_copy(update={"node": "n0"}) for worker in placement)


BAD: list[tuple[str, int, Callable[[Evidence], None], str]] = [
    (
        "two turns of one lane overlap",
        1,
        _with_turns(
            turn("lane-a", 0, 0, 1),
            turn("lane-c", 0, 0.75, 2),
            turn("lane-a", 0, 2, 3),
            turn("lane-b", 1, 0, 3),
        ),
        "turn 1 of lane-c began 0.250 s before turn 1 of lane-a ended",
    ),
    (
        "an open turn overlaps what follows",
        1,
        _with_turns(turn("lane-a", 0, 0, float("inf")), turn("lane-c", 0, 5, 6)),
        "of lane-c began inf s before",
    ),
    (
        "the lanes wait for each other",
        1,
        _with_turns(turn("lane-a", 0, 0, 1), turn("lane-b", 1, 1, 2), turn("lane-c", 0, 2, 3)),
        "the lanes did not run in parallel",
    ),
    (
        "each job has a lane of its own",
        1,
        _with_turns(turn("lane-a", 0, 0, 9), turn("lane-b", 1, 0, 9), turn("lane-c", 2, 0, 9)),
        "no two of the three jobs shared a lane",
    ),
    ("no turn at all", 1, _with_turns(), "took turns on 0 GPUs"),
    (
        "a lane's job failed",
        1,
        _with_job(job("lane-b", ended="Failed", message="boom")),
        "lane-b is Failed: boom",
    ),
    ("the gang on one node", 2, _one_node, "the gang ran on n0 only"),
    ("the gang started twice", 2, lambda e: e.pods["gang"].add("e"), "started more than once"),
    ("no preemption", 3, _with_job(job("long")), "long was never preempted"),
    ("steps trained twice", 3, _second_attempt_from(30), "3 steps were trained twice"),
    ("steps left out", 3, _second_attempt_from(40), "began after step 40, never trained beyond 33"),
    ("one attempt only", 3, lambda e: e.outputs.update({"long": e.outputs["long"][:1]}), "ran 1 attempts"),  # type: ignore[attr-defined]
    ("the same workers again", 7, _elastic(workers=1), "was not rescaled while it trained"),
    ("steps trained with both", 7, _elastic(resumed=50), "10 steps were trained twice"),
    ("it ends early", 7, _elastic(end=80), "ended at step 80, its target is 90"),
    (
        "it has learnt nothing",
        7,
        lambda evidence: setattr(evidence, "accuracies", {"elastic": 0.5}),
        "an accuracy of 50.0%, below 90%",
    ),
    ("no reason", 4, _with_job(job("never-fits", ended="")), "is not reported as waiting"),
    (
        "no way out",
        4,
        _with_job(job("never-fits", ended="", waiting={"reason": "R", "message": "It does not fit."})),
        "does not name what would start it",
    ),
    ("pods for it", 4, lambda e: e.pods.update({"never-fits": {"p"}}), "never-fits got pods"),
    ("it does not fail", 5, _with_job(job("outgrows")), "outgrows did not fail"),
    (
        "no limit named",
        5,
        _with_job(job("outgrows", ended="Failed", message="killed")),
        "its limit of 24.8 MiB",
    ),
    (
        "its lane stops",
        5,
        _with_turns(turn("lane-b", 1, 0, 1), turn("outgrows", 1, 1, 2)),
        "no other job took a turn in lane 1",
    ),
    (
        "one of them failed",
        6,
        _with_job(job("half-3", ended="Failed", message="boom")),
        "half-3 is Failed: boom",
    ),
    ("one of them was preempted", 6, _with_job(job("half-1", preemptions=1)), "half-1 was preempted"),
    (
        "one after the other",
        6,
        _with_turns(half("half-1", 0, 9, 9), half("half-2", 10, 19, 9), half("half-3", 20, 29, 9)),
        "no GPU had turns of two of",
    ),
    (
        "both at once",
        6,
        _with_turns(half("half-1", 0, 9, 9), half("half-3", 0, 9, 9)),
        "half-1 trained no iteration alone",
    ),
    (
        "the first one stands still",
        6,
        _with_turns(half("half-1", 0, 9, 9), half("half-3", 9, 19, 9), half("half-1", 18, 19, 0)),
        "half-1 did not go on",
    ),
]


@pytest.mark.parametrize(
    ("number", "spoil", "expected"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
def test_a_bad_run_is_reported(number: int, spoil: Callable[[Evidence], None], expected: str) -> None:
    evidence = good()
    spoil(evidence)

    (claim,) = (each for each in claims.CLAIMS if each.number == number)
    assert expected in "\n".join(claim.check(evidence))


def test_speeds_beside_another_job_are_shown_with_that_of_a_job_alone_in_the_same_seconds() -> None:
    shown = claims.CLAIMS[5].shown(good())

    assert "half-3 joined half-1 on GPU-7 of n2" in shown
    assert (
        "half-1 at 4.0 iterations a second with 2 turns and half-3 at 4.0 iterations a second with 1 turns"
        in shown
    )
    assert "half-2, on another GPU meanwhile, at 5.0." in shown
    assert "It is worth waiting." in shown


def test_turns_that_touch_do_not_overlap() -> None:
    assert overlaps_within_lanes([turn("a", 0, 0, 1), turn("b", 0, 1, 2)]) == []


def test_turns_of_different_gpus_are_not_lanes_of_one() -> None:
    elsewhere = Turn("n1", "GPU-9", 1, 1, "b", "b-0", 0.5, 2, 1)

    assert overlaps_across_lanes([turn("a", 0, 0, 1), elsewhere]) == 0


def test_the_message_of_a_job_that_waits_for_gpus_is_kept() -> None:
    evidence = Evidence()
    waits = {"reason": "AwaitingProfile", "message": "Its profile is not known."}
    starts = {"reason": "Starting", "message": "0 of 1 workers run."}
    workers = [{"worker": 0, "node": "n1", "gpus": ["GPU-1"], "sharePercent": 100}]
    evidence.see_jobs({"half-3": job("half-3", ended="", waiting=waits)})
    evidence.see_jobs({"half-3": job("half-3", ended="", waiting=starts, placement=workers)})

    assert evidence.waited == {"half-3": "Its profile is not known."}
