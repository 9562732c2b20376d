"""Speeds: progress follows the model, and changes when the company on the GPUs does."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from laneway.scheduling import Profile, StageSeconds
from laneway.scheduling.model.interference import PARALLEL_PENALTY_RATIO, Interference, Load, load_of
from laneway.simulator import InputError, Knowledge, Sharing, make_nodes
from laneway.simulator.models.gavel import Gavel
from laneway.simulator.models.lanes import Lanes
from laneway.simulator.models.speed_model import Changes, Occupancy, Speed

from tests.unit.simulator.builders import SMALL, a_job, finishes, simulated

KNOWN = Knowledge(profiled=True)
RESNET, LM = "ResNet-18 (batch size 16)", "LM (batch size 5)"
THROUGHPUTS = {
    "v100": {
        f"('{RESNET}', 1)": {"null": 10.0, f"('{LM}', 1)": [5.0, 8.0]},
        f"('{LM}', 1)": {"null": 10.0, f"('{RESNET}', 1)": [8.0, 5.0]},
        f"('{LM}', 2)": {"null": 20.0},
    },
    "v100_unconsolidated": {f"('{LM}', 2)": {"null": 4.0}},
    "k80": {f"('{RESNET}', 1)": {"null": 2.0}, f"('{LM}', 1)": {"null": 5.0}, f"('{LM}', 2)": {"null": 8.0}},
}


@pytest.fixture
def throughputs(tmp_path: Path) -> str:
    path = tmp_path / "throughputs.json"
    path.write_text(json.dumps(THROUGHPUTS), encoding="utf-8")
    return str(path)


@dataclass(frozen=True)
class HalfAsFastFromTheMiddle:
    """Speed 1 up to 50 s of work, 0.5 from there on."""

    def speeds(self, changes: Changes, occupancy: Occupancy, now_seconds: float) -> dict[str, Speed]:
        return {
            key: Speed(1.0, until_progress_seconds=50.0)
            if occupancy.run(key).progress_seconds(now_seconds) < 50.0
            else Speed(0.5)
            for key in changes.runs
        }


def test_a_speed_holds_until_an_amount_of_work_is_done() -> None:
    simulation = simulated(a_job("a", 100), model=HalfAsFastFromTheMiddle(), order="fifo")
    assert finishes(simulation) == {"a": 50 + 100}
    assert simulation.runs["a"].executed_seconds == 150


def test_progress_survives_a_preemption_at_another_speed() -> None:
    simulation = simulated(
        a_job("long", 100),
        a_job("short", 20, submit=70),
        model=HalfAsFastFromTheMiddle(),
        thresholds_gpu_seconds=[30],
        promotion_factor=0,
    )
    # long has done 60 s of work at 70 s; short ends at 90; 40 s are left at half the speed
    assert finishes(simulation) == {"long": 90 + 80, "short": 90}


def test_lanes_are_as_fast_as_their_stages_let_them_be() -> None:
    model = Lanes()
    reads, computes = StageSeconds(0.8, 0.0, 0.2, 0.0), StageSeconds(0.0, 0.2, 0.8, 0.0)
    jobs = [
        a_job(name, 100, profile=replace(SMALL, stages=stages))
        for name, stages in (("reads", reads), ("computes", computes))
    ]
    shared = Sharing(2).shared(make_nodes("1x1"))
    simulation = simulated(*jobs, nodes=shared, model=model, order="fifo", knowledge=KNOWN)
    costs = Interference(model.parallel_penalty_ratio)
    together = costs.speed_ratios([Load(reads, 1.0), Load(computes, 1.0)])
    first = 100 / max(together)
    assert min(finishes(simulation).values()) == pytest.approx(first)  # type: ignore[type-var]
    last = first + 100 - first * min(together)
    assert max(finishes(simulation).values()) == pytest.approx(last)  # type: ignore[type-var]
    assert sum(run.attained_gpu_seconds for run in simulation.runs.values()) == pytest.approx(200)
    assert last < 200, "one after the other would take longer"


def test_a_gang_in_lanes_is_as_fast_as_on_its_slowest_gpu_and_attains_its_share() -> None:
    jobs = [
        a_job("pair", 100, gpus=2, profile=SMALL),
        a_job("beside", 1000, share=50, profile=SMALL),
    ]
    simulation = simulated(
        *jobs, nodes=Sharing(2).shared(make_nodes("1x2")), model=Lanes(), order="fifo", knowledge=KNOWN
    )
    ratio = Interference(PARALLEL_PENALTY_RATIO).speed_ratios([load_of(SMALL), load_of(SMALL)])[0]
    assert finishes(simulation)["pair"] == pytest.approx(100 / ratio)
    assert simulation.runs["pair"].attained_gpu_seconds == pytest.approx(200)
    assert simulation.runs["beside"].attained_gpu_seconds == pytest.approx(500), "half of a GPU, at its speed"


def test_jobs_without_memory_for_own_lanes_take_turns_at_a_cost() -> None:
    reads = StageSeconds(0.5, 0.0, 0.5, 0.0)
    large = Profile(2**30, 60 * 2**30, iteration_seconds=1.0, stages=reads)
    small = replace(large, ephemeral_bytes=2**30)
    shared = Sharing(2).shared(make_nodes("1x1"))

    def last(profile: Profile, model: Lanes) -> float:
        jobs = [a_job(name, 100, profile=profile) for name in ("a", "b")]
        simulation = simulated(*jobs, nodes=shared, model=model, order="fifo", knowledge=KNOWN)
        return max(finish or 0.0 for finish in finishes(simulation).values())

    one_lane = [Load(reads, 1.0, lane=0)] * 2
    for model in (Lanes(), Lanes(switch_seconds=0.25)):
        costs = Interference(model.parallel_penalty_ratio, model.switch_seconds)
        assert last(large, model) == pytest.approx(100 / costs.speed_ratios(one_lane)[0])
    assert last(large, Lanes(switch_seconds=0.25)) > last(large, Lanes())
    assert last(small, Lanes(switch_seconds=0.25)) == last(small, Lanes()), "each has a lane of its own"


def test_gavel_on_another_type_of_gpu(throughputs: str) -> None:
    simulation = simulated(
        a_job("a", 100, model=RESNET), nodes="1x1:k80:12", model=Gavel(throughputs), order="fifo"
    )
    assert finishes(simulation) == {"a": 500}


def test_a_job_stays_off_gpus_on_which_it_cannot_run(tmp_path: Path) -> None:
    path = tmp_path / "throughputs.json"
    unable = {**THROUGHPUTS, "k80": {**THROUGHPUTS["k80"], f"('{RESNET}', 1)": {"null": 0.0}}}
    path.write_text(json.dumps(unable), encoding="utf-8")
    jobs = [a_job(name, 100, model=RESNET) for name in ("a", "b")]
    simulation = simulated(*jobs, nodes="1x1:k80:12,1x1:v100:16", model=Gavel(str(path)), order="fifo")
    assert finishes(simulation) == {"a": 100, "b": 200}


def test_the_scheduler_knows_the_speeds_that_gavel_measured(throughputs: str) -> None:
    jobs = [a_job("a", 100, model=LM), a_job("b", 100, model=RESNET)]
    simulation = simulated(*jobs, nodes="1x1:k80:12,1x1:v100:16", model=Gavel(throughputs), order="gavel-las")
    # On the K80 the language model is half as fast, the other one a fifth.
    assert finishes(simulation) == {"b": 100, "a": 200}


def test_gavel_across_nodes(throughputs: str) -> None:
    job = a_job("a", 100, gpus=2, model=LM)
    assert finishes(simulated(job, nodes="1x2", model=Gavel(throughputs), order="fifo")) == {"a": 100}
    assert finishes(simulated(job, nodes="2x1", model=Gavel(throughputs), order="fifo")) == {"a": 500}


def test_gavel_pairs_slow_one_another_down_while_both_are_there(throughputs: str) -> None:
    simulation = simulated(
        a_job("resnet", 100, model=RESNET, profile=SMALL),
        a_job("lm", 40, model=LM, profile=SMALL),
        nodes=Sharing(2).shared(make_nodes("1x1")),
        model=Gavel(throughputs),
        order="fifo",
        knowledge=KNOWN,
    )
    # together 50 s: lm at 0.8, resnet at 0.5; then resnet alone has 75 s left
    assert finishes(simulation) == {"lm": pytest.approx(50), "resnet": pytest.approx(125)}
    resnet = simulation.runs["resnet"]
    assert resnet.attained_gpu_seconds == pytest.approx(50 * 0.5 + 75), (
        "it had half of the GPU's time at first"
    )
    assert resnet.executed_seconds == pytest.approx(125)


def test_gavel_pairs_that_were_not_measured_take_turns(throughputs: str) -> None:
    simulation = simulated(
        a_job("a", 10, model=RESNET, profile=SMALL),
        a_job("b", 10, model=RESNET, profile=SMALL),
        nodes=Sharing(2).shared(make_nodes("1x1")),
        model=Gavel(throughputs),
        order="fifo",
        knowledge=KNOWN,
    )
    assert finishes(simulation) == {"a": 20, "b": 20}


def test_gavel_reports_unmeasured_types(throughputs: str, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"there is no throughput of .* on v100: choose a trace whose jobs were"
    ):
        simulated(a_job("a", 1, model="GPT-7"), model=Gavel(throughputs), order="fifo")
    with pytest.raises(
        ValueError, match="there are no throughputs on GPUs of type 'h100': choose one of k80, v100"
    ):
        simulated(a_job("a", 1, model=LM), nodes="1x1:H100:80", model=Gavel(throughputs), order="fifo")
    with pytest.raises(ValueError, match="no throughputs on GPUs of type 'a100'"):
        Gavel(throughputs, "a100")
    with pytest.raises(InputError, match="cannot read the throughputs"):
        Gavel(str(tmp_path / "none.json"))
    (tmp_path / "list.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match="is not a file of throughputs"):
        Gavel(str(tmp_path / "list.json"))
