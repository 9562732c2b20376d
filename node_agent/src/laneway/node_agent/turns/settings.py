"""How turns are given: the configuration, in seconds, and the bounds that are ours."""

from __future__ import annotations

from dataclasses import dataclass

from laneway.api.node_config import NodeConfig
from laneway.lanes import LaneRules
from laneway.lanes.turns import TurnPolicy, turn_policy


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """What one GPU's turns follow."""

    policy: TurnPolicy
    quantum_seconds: float = 0.1
    timeout_seconds: float = 30.0

    idle_seconds: float = 0.002
    """A holder between iterations for so long is asked to make room: its lane is idle. A gap shorter than that is no
    more than the few hand-offs that filling it would cost."""

    poll_seconds: float = 0.005
    """How often a holder is looked at while somebody waits; where it leaves by itself, holders of all lanes are looked at together."""

    recall_seconds: float = 1.0
    """Service that a session may save up by being away for short; away for longer, it saves up none."""

    framework_bytes: int = 0
    """Counted for the framework's own memory of a process on a real GPU that is not measured yet."""

    @classmethod
    def of(cls, config: NodeConfig) -> TurnSettings:
        """Return what the configuration file says."""
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
            recall_seconds=max(1.0, 10 * quantum_seconds),
            framework_bytes=config.lanes.framework_mebibytes << 20,
        )


def lane_rules(config: NodeConfig) -> LaneRules:
    """Return how the configuration file cuts memory into lanes."""
    return LaneRules(max_lanes=config.lanes.max_per_gpu, padding_percent=config.lanes.padding_percent)
