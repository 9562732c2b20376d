"""The moment and the sizes of all examples."""

from __future__ import annotations

from laneway.scheduling.config.operator_config import TimeoutsConfig

GIB = 2**30
NOW = 1_000_000.0
TIMEOUTS = TimeoutsConfig()
