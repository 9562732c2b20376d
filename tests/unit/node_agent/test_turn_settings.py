"""The turn settings of the configuration file."""

from __future__ import annotations

import pytest
from laneway.api.node_config import NodeConfig, TurnConfig
from laneway.lanes.turns import TURN_POLICIES, Fair, LeastAttained, StarvationBound
from laneway.node_agent.turns.settings import TurnSettings
from pydantic import ValidationError


def settings_of(**turns: object) -> TurnSettings:
    return TurnSettings.of(NodeConfig.model_validate({"turns": turns, "lanes": {"frameworkMebibytes": 7}}))


@pytest.mark.parametrize("name", sorted(TURN_POLICIES))
def test_each_policy_can_be_configured_and_has_the_bound_around_it(name: str) -> None:
    settings = settings_of(policy=name, starvationSeconds=9, quantumMilliseconds=250, timeoutSeconds=4)
    assert isinstance(settings.policy, StarvationBound)
    assert isinstance(settings.policy.policy, TURN_POLICIES[name])  # type: ignore[arg-type]
    assert settings.policy.bound_seconds == 9
    assert (settings.quantum_seconds, settings.timeout_seconds) == (0.25, 4)
    assert settings.framework_bytes == 7 << 20


@pytest.mark.parametrize(("configured", "seconds"), [(0, 40), (7, 7)])
def test_the_time_of_a_first_iteration_is_configured_or_ten_timeouts(configured: int, seconds: int) -> None:
    settings = settings_of(timeoutSeconds=4, firstIterationSeconds=configured)
    assert settings.longest_first_iteration_seconds == seconds


def test_the_thresholds_of_las_are_configured() -> None:
    policy = settings_of(policy="las", lasThresholdsSeconds=[5, 50]).policy
    assert isinstance(policy, StarvationBound)
    assert policy.policy == LeastAttained((5, 50))


def test_fair_counts_in_the_quanta_that_turns_last() -> None:
    policy = settings_of(policy="fair", quantumMilliseconds=250).policy
    assert isinstance(policy, StarvationBound)
    assert policy.policy == Fair(quantum_seconds=0.25)


@pytest.mark.parametrize("thresholds", [[], [5, 5], [9, 3], [0], [1.5]])
def test_invalid_thresholds_are_refused_when_the_file_is_read(thresholds: list[float]) -> None:
    with pytest.raises(ValidationError, match="lasThresholdsSeconds"):
        TurnConfig.model_validate({"lasThresholdsSeconds": thresholds})
