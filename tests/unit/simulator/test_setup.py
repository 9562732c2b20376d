"""Policies, costs and models by name and option."""

from __future__ import annotations

import pytest
from laneway.scheduling import Demand
from laneway.scheduling.config.operator_config import OperatorConfig
from laneway.scheduling.order.tiresias_las import TiresiasLAS
from laneway.scheduling.placement.joined import Joined
from laneway.scheduling.placement.lanes import Lanes
from laneway.scheduling.placement.tiresias import TiresiasPlacement
from laneway.simulator import (
    IDEAL,
    Costs,
    Failures,
    Latencies,
    OperatorModel,
    Sharing,
    TraceJob,
    make_nodes,
    make_setup,
)
from laneway.simulator.models.alone import Alone


def test_everything_has_a_default() -> None:
    setup = make_setup("tiresias-las", None, [])
    assert (setup.policy, setup.placement) == ("tiresias-las", "best-fit")
    assert isinstance(setup.policies.order, TiresiasLAS)
    assert setup.costs == Costs()
    assert setup.model == Alone()
    assert setup.sharing is None
    assert setup.policies.allocation is None


def test_a_parameter_goes_to_everything_that_has_one_of_its_name() -> None:
    setup = make_setup(
        "tiresias-las",
        "spread",
        ["promotion_factor=2", "restart_seconds=1.5", "min_run_seconds=9", "profiled=true", "limit=100"],
    )
    assert isinstance(setup.policies.order, TiresiasLAS)
    assert setup.policies.order.promotion_factor == 2
    assert setup.costs.restart_seconds == 1.5
    assert setup.knowledge.profiled
    assert setup.reading.limit == 100
    assert setup.parameters["placement"] == "spread"
    assert setup.parameters["min_run_seconds of preemption lowest-first"] == 9
    assert setup.parameters["leave_seconds of the costs"] == 20


def test_an_operators_configuration_gives_policies_and_the_model() -> None:
    configured = OperatorConfig.model_validate(
        {
            "scheduling": {
                "order": {"policy": "tiresias-las", "options": {"thresholdsGpuSeconds": [60, 600]}},
                "preemption": {"policy": "lowest-first", "options": {"minRunSeconds": 5}},
            },
            "lanes": {"maxPerGpu": 2},
        }
    )
    setup = make_setup(
        None, None, ["min_run_seconds=7", "pods_seconds=3", "job_mtbf_seconds=900"], configured
    )
    assert setup.policies.order == TiresiasLAS(thresholds_gpu_seconds=(60, 600))
    assert setup.parameters["min_run_seconds of preemption lowest-first"] == 7
    assert setup.operator == OperatorModel(
        configured, Latencies(pods_seconds=3), Failures(job_mtbf_seconds=900)
    )
    ((gpu,),) = (node.gpus for node in setup.nodes(make_nodes("1x1")))
    assert (gpu.active_percent, gpu.lane_rules.max_lanes) == (400, 2)


@pytest.mark.parametrize(("sharing", "offered", "active"), [("off", 100, 100), ("lanes", 800, 400)])
def test_an_operators_switch_decides_whether_jobs_join_others(
    sharing: str, offered: int, active: int
) -> None:
    configured = OperatorConfig.model_validate(
        {
            "sharing": sharing,
            "scheduling": {"placement": {"policy": "tiresias"}, "joining": {"minGainRatio": 0.2}},
        }
    )
    setup = make_setup(None, None, ["keep_gain_ratio=0.1"] if sharing == "lanes" else [], configured)
    ((gpu,),) = (node.gpus for node in setup.nodes(make_nodes("1x1")))
    assert (gpu.allocatable_percent, gpu.active_percent) == (offered, active)
    alone = TiresiasPlacement()
    lanes = Lanes(min_gain_ratio=0.2, keep_gain_ratio=0.1)
    assert setup.policies.placement == (Joined(alone, lanes) if sharing == "lanes" else alone)
    assert setup.parameters["model"] == ("lanes" if sharing == "lanes" else "alone")


def test_the_placement_lanes_turns_the_operators_switch_on() -> None:
    setup = make_setup(None, "lanes", [], OperatorConfig())
    ((gpu,),) = (node.gpus for node in setup.nodes(make_nodes("1x1")))
    assert (gpu.allocatable_percent, gpu.active_percent) == (800, 400)
    assert setup.policies.placement == Lanes()


def test_another_order_than_the_configured_one_keeps_the_other_stages() -> None:
    configured = OperatorConfig.model_validate(
        {"scheduling": {"preemption": {"policy": "lowest-first", "options": {"minRunSeconds": 5}}}}
    )
    setup = make_setup("fifo", None, [], configured)
    assert setup.policy == "fifo"
    assert setup.parameters["min_run_seconds of preemption lowest-first"] == 5


def test_without_a_configuration_the_operator_is_ideal() -> None:
    assert make_setup("fifo", None, []).operator == IDEAL
    with pytest.raises(ValueError, match="this belongs to the model of an operator: add --operator FILE"):
        make_setup("fifo", None, ["pods_seconds=1"])


def test_the_last_of_two_values_counts() -> None:
    assert make_setup("fifo", None, ["leave_seconds=1", "leave_seconds=2"]).costs.leave_seconds == 2


def test_stages_are_chosen_by_name() -> None:
    setup = make_setup("fifo", None, ["allocation=tune", "admission=quota"])
    assert setup.policies.allocation is not None
    assert len(setup.policies.admission) == 1
    assert setup.parameters["allocation"] == "tune"


def test_gpus_are_shared_if_an_option_says_how() -> None:
    setup = make_setup("fifo", None, ["overcommit=2", "max_lanes=3"])
    assert setup.sharing == Sharing(2, 3)
    ((gpu,),) = (node.gpus for node in setup.sharing.shared(make_nodes("1x1")))
    assert (gpu.allocatable_percent, gpu.lane_rules.max_lanes) == (200, 3)
    assert make_setup("fifo", None, []).sharing is None


@pytest.mark.parametrize(("options", "want"), [([], 0.2), (["max_slowdown_percent=50"], 0.5)])
def test_jobs_of_a_trace_have_the_bound_of_jobs_that_share_gpus(options: list[str], want: float) -> None:
    jobs = (TraceJob("a", Demand(), 0.0, 10.0),)
    (bounded,) = make_setup("fifo", "lanes", options).jobs(jobs)
    assert bounded.demand.max_slowdown_ratio == want
    assert make_setup("fifo", None, []).jobs(jobs) == jobs


@pytest.mark.parametrize(
    ("sharing", "says"),
    [
        ({"overcommit": 0.9}, "overcommit is 0.9"),
        ({"max_slowdown_percent": 101}, "max_slowdown_percent is 101: write 0 to 100"),
        ({"max_lanes": -1}, "max_lanes is -1"),
    ],
)
def test_wrong_sharing_is_refused(sharing: dict[str, float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Sharing(**sharing)  # type: ignore[arg-type]
