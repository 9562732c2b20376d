"""TrainingJobs on real nodes: they run, in gangs, are preempted, wait with reasons and are held to their shares."""

from __future__ import annotations

from laneway.api.quantity import parse_bytes

from hack.cluster.probes import wait_until
from hack.demo.install import SYSTEM_NAMESPACE, system_pods
from hack.demo.jobs import JobView
from hack.demo.turns import Turn, by_lane, handovers, overlaps_within_lanes, read_turns
from tests.e2e.conftest import Bench
from tests.e2e.manifests import EXCLUSIVE_NODE, SHARED_FOLDER, training_job
from tests.e2e.node_view import running, wait_until_further


def ended(job: JobView) -> bool:
    return job.ended


def has_last_figures(job: JobView) -> bool:
    """Return whether a job that has ended says how many turns it took, what it held and how far it came."""
    profile, progress = job.status.profile, job.status.progress
    if not job.ended or job.status.turns < 1 or profile is None or progress is None:
        return False
    return profile.persistent_bytes > 0 and profile.iterations > 100 and progress.iterations > 100


def test_a_job_runs_and_says_how_it_went(bench: Bench) -> None:
    bench.jobs.apply([training_job("one", steps=300)])

    bench.jobs.wait(["one"], ended, "the end", 240, bench.follow)
    job = bench.jobs.wait(["one"], has_last_figures, "the last figures, which its node reports later", 120)[
        "one"
    ]

    assert {each.type: each.status for each in job.status.conditions} == {
        "Accepted": "True",
        "Placed": "False",
        "Running": "False",
        "Preempted": "False",
        "Suspended": "False",
        "Complete": "True",
        "Failed": "False",
    }
    assert all(each.reason and each.message for each in job.status.conditions)
    assert job.attained_gpu_seconds > 0
    assert job.jct_seconds is not None
    bench.outputs.settle()
    assert (bench.outputs.accuracy("one") or 0) > 0.8
    events = bench.laneway.kubectl.get("events", "--namespace", bench.namespace)["items"]
    assert any(event["involvedObject"]["kind"] == "TrainingJob" for event in events)


def test_two_jobs_of_one_gpu_take_turns_in_a_lane_beside_a_third(bench: Bench) -> None:
    three = ["a", "b", "c"]
    bench.jobs.apply([training_job(name, steps=1_000_000, batch=1797) for name in three])
    bench.jobs.wait(three, running, "running", 240)
    agents = system_pods(bench.laneway.installation.target, "node")

    def remembered() -> list[Turn]:
        return read_turns(bench.laneway.api, SYSTEM_NAMESPACE, agents, 0, bench.namespace)

    def take_turns() -> bool:
        turns = remembered()
        return {turn.job for turn in turns} == set(three) and max(handovers(turns).values()) > 5

    wait_until(take_turns, "two of the three taking turns with each other", 240)

    turns = remembered()
    assert len({(turn.node, turn.gpu) for turn in turns}) == 1
    assert len(by_lane(turns)) == 2
    assert overlaps_within_lanes(turns) == []


def test_a_gang_trains_together_over_both_nodes(bench: Bench) -> None:
    bench.jobs.apply([training_job("gang", spec={"workers": 4, "placement": "Spread"}, steps=30)])

    job = bench.jobs.wait(["gang"], ended, "the end", 300, bench.follow)["gang"]

    assert job.has("Complete"), job.message("Failed")
    pods = bench.jobs.pods("gang")
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
    bench.outputs.settle()
    # The same accuracy on all of them: gradients were averaged, the models are one.
    reached = {bench.outputs.attempts("gang", rank)[-1].events[-1]["accuracy"] for rank in range(4)}
    assert len(reached) == 1


def test_a_gang_has_all_of_its_workers_or_none(bench: Bench) -> None:
    """One worker would fit at once; it does not start without the other."""
    bench.jobs.apply([training_job("holder", spec=EXCLUSIVE_NODE, steps=10_000, pace_seconds=0.1)])
    bench.jobs.wait(["holder"], running, "running", 120)
    bench.jobs.apply([training_job("pair", spec={"workers": 2, **EXCLUSIVE_NODE}, steps=10)])

    waits = bench.jobs.wait(["pair"], lambda job: job.status.waiting is not None, "waiting", 120)["pair"]
    assert bench.jobs.pods("pair") == []
    assert waits.status.waiting is not None
    assert waits.status.waiting.message

    bench.laneway.kubectl.run("delete", "trainingjob", "holder", "--namespace", bench.namespace)
    pair = bench.jobs.wait(["pair"], ended, "the end", 240)["pair"]
    assert pair.has("Complete"), pair.message("Failed")


def test_a_preempted_job_resumes_from_its_checkpoint(bench: Bench) -> None:
    """It has one node; of two newcomers that want a node each, one gets the other node and one gets its place."""
    checkpoint = f"{SHARED_FOLDER}/{bench.namespace}.pt"
    patient = {**EXCLUSIVE_NODE, "preemption": {"gracePeriodSeconds": 20}}
    # However slow the rest is, it does not end before it is preempted; then it has little left to do.
    until = {"steps": 1_000_000, "steps_after_resume": 20, "pace_seconds": 0.15}
    bench.jobs.apply([training_job("long", spec=patient, checkpoint=checkpoint, **until)])
    bench.jobs.wait(["long"], lambda job: job.status.queue > 0, "falling behind newcomers", 240, bench.follow)
    # Before its handler of SIGTERM is there, it would end without a checkpoint.
    wait_until_further(bench, "long-0", 5)

    shorts = ["short-1", "short-2"]
    bench.jobs.apply([training_job(name, spec=EXCLUSIVE_NODE, steps=20) for name in shorts])
    views = bench.jobs.wait([*shorts, "long"], ended, "the end", 300, bench.follow)

    assert [views[name].has("Complete") for name in shorts] == [True, True]
    long = views["long"]
    assert long.has("Complete"), long.message("Failed")
    assert (long.status.preemptions, long.status.restarts) == (1, 0)
    bench.outputs.settle()
    first, second = (attempt.events for attempt in bench.outputs.attempts("long"))
    assert first[-1]["event"] == "checkpoint"
    saved = first[-1]["step"]
    assert second[0] == {"event": "start", "rank": 0, "step": saved, "target": saved + 20}
    assert second[-1]["step"] == saved + 20


def test_a_job_that_never_fits_says_why_and_what_would_let_it_run(bench: Bench) -> None:
    bench.jobs.apply(
        [
            training_job("giant", spec={"gpus": {"type": "Count", "count": 16}}),
            training_job("memory", spec={"gpus": {"type": "Memory", "memory": "64Gi"}}),
            training_job(
                "model",
                spec={"gpus": {"type": "Share", "sharePercent": 50, "models": ["NVIDIA H100 80GB HBM3"]}},
            ),
        ]
    )

    views = bench.jobs.wait(
        ["giant", "memory", "model"],
        lambda job: job.status.waiting is not None and bool(job.status.waiting.unblock),
        "saying what would let it run",
        120,
    )

    said = {name: view.status.waiting for name, view in views.items()}
    assert all(waiting is not None and waiting.message for waiting in said.values())
    assert "16" in said["giant"].message  # type: ignore[union-attr]
    assert "H100" in said["model"].message + said["model"].unblock  # type: ignore[union-attr]
    assert bench.jobs.pods() == []


def test_a_job_that_outgrows_its_share_fails_alone(bench: Bench) -> None:
    greedy = {"gpus": {"type": "Share", "sharePercent": 10}, "backoffLimit": 0}
    bench.jobs.apply(
        [
            training_job("a", steps=500, batch=1797, pace_seconds=0.01),
            training_job("b", steps=500, batch=1797, pace_seconds=0.01),
            training_job("greedy", spec=greedy, steps=10_000, grow_mebibytes=2),
        ]
    )

    views = bench.jobs.wait(["a", "b", "greedy"], ended, "the end", 300)

    limit_mebibytes = (parse_bytes("512Mi") - parse_bytes("16Mi")) / 10 / 2**20
    assert views["greedy"].has("Failed")
    assert f"{limit_mebibytes:.1f} MiB" in views["greedy"].message("Failed")
    assert views["a"].has("Complete")
    assert views["b"].has("Complete")
    assert [views[name].status.restarts for name in "ab"] == [0, 0]
