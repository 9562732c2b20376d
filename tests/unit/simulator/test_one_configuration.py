"""Operator and simulator take the policies of all stages from one ``operator.yaml``: what only one of them offers, by stage and policy."""

from __future__ import annotations

from typing import Any

import pytest
from laneway.scheduling.config.operator_config import OperatorConfig
from laneway.scheduling.config.registry import STAGES
from laneway.simulator.setup import make_setup
from pydantic import ValidationError

ALL = [(stage, name) for stage, known in STAGES.items() for name in known.names()]


def file_with(stage: str, name: str) -> dict[str, Any]:
    """An operator.yaml that chooses a policy."""
    if (stage, name) == ("placement", "lanes"):
        return {"sharing": "lanes"}
    chosen = {"policy": name}
    return {"scheduling": {stage: [chosen] if stage == "admission" else chosen}}


def is_in_both(stage: str, name: str) -> bool:
    """Whether the operator takes a file with this policy, and the simulator makes the same of it."""
    try:
        config = OperatorConfig.model_validate(file_with(stage, name))
    except ValidationError:
        return False
    made, others = config.policies(), OperatorConfig(sharing="off" if name == "lanes" else "lanes").policies()
    is_default = name == "none" or name in (
        OperatorConfig().scheduling.order.policy,
        "best-fit",
        "lowest-first",
    )
    return make_setup(None, None, [], config).policies == made and (is_default or made != others)


def test_only_one_of_them_offers_nothing() -> None:
    assert [each for each in ALL if not is_in_both(*each)] == []


def test_options_reach_both() -> None:
    elastic = {"policy": "pollux", "options": {"restartSeconds": 7, "fairness": -1}}
    config = OperatorConfig.model_validate({"scheduling": {"elastic": elastic}})
    assert make_setup(None, None, [], config).policies == config.policies()
    named = make_setup(None, None, ["elastic=bftrainer"], config).policies.elastic
    assert type(named).__name__ == "BFTrainer"


@pytest.mark.parametrize("sharing", ["off", "lanes"])
def test_the_defaults_are_the_same(sharing: str) -> None:
    config = OperatorConfig.model_validate({"sharing": sharing})
    assert make_setup(None, None, [], config).policies == config.policies()
