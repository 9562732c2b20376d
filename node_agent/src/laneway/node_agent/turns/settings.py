"""Settings of the turn scheduler: the configuration, in seconds, and fixed bounds."""

from __future__ import annotations

from dataclasses import dataclass

from laneway.api.node_config import NodeConfig
from laneway.lanes import LaneRules
from laneway.lanes.turns import TurnPolicy, turn_policy
from laneway.node_agent.turns.release_limit import MAX_TIMEOUTS


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """The turn settings of one GPU."""

    policy: TurnPolicy
    quantum_seconds: float = 0.1
    timeout_seconds: float = 30.0
    first_iteration_seconds: float = 0.0
    """How long a first iteration may take after a request to yield; 0: as long as any other that is measured."""

    kill_seconds: float = 30.0
    """How long the watchdog takes from SIGTERM to SIGKILL."""

    idle_seconds: float = 0.002
    """A holder between iterations for this long is asked to yield, because its lane is idle. Filling a
    shorter gap would cost more in hand-offs than it gains."""

    poll_seconds: float = 0.005
    """How often a holder is checked while others wait. Holders that yield by themselves are checked together,
    across lanes."""

    release_seconds: float = 0.2
    """How long the release of a process may be on its way after it has woken its successor."""

    recall_seconds: float = 1.0
    """Service that a lease may save while it is briefly away; a longer absence saves none."""

    framework_bytes: int = 0
    """Counted for the framework's own memory of an unmeasured process on a real GPU."""

    @property
    def longest_first_iteration_seconds(self) -> float:
        """Return how long a first iteration may take after a request to yield."""
        return self.first_iteration_seconds or MAX_TIMEOUTS * self.timeout_seconds

    @classmethod
    def of(cls, config: NodeConfig) -> TurnSettings:
        """Return the settings from the configuration file."""
        turns = config.turns
        quantum_seconds = turns.quantum_milliseconds / 1000
        of_policies: dict[str, dict[str, object]] = {
            "fair": {"quantum_seconds": quantum_seconds},
            "las": {"thresholds_seconds": turns.las_thresholds_seconds},
        }
        own = of_policies.get(turns.policy, {})
        return cls(
            policy=turn_policy(turns.policy, starvation_seconds=turns.starvation_seconds, **own),
            quantum_seconds=quantum_seconds,
            timeout_seconds=turns.timeout_seconds,
            first_iteration_seconds=turns.first_iteration_seconds,
            kill_seconds=config.watchdog.kill_seconds,
            recall_seconds=max(1.0, 10 * quantum_seconds),
            framework_bytes=config.lanes.framework_mebibytes << 20,
        )


def lane_rules(config: NodeConfig) -> LaneRules:
    """Return the lane rules from the configuration file."""
    return LaneRules(max_lanes=config.lanes.max_per_gpu, padding_percent=config.lanes.padding_percent)
