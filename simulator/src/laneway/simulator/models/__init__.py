"""Models of the jobs' speed. The protocol is in ``speed_model``; every other module is one model.

A model is a dataclass; its fields are its parameters. ``MODELS`` has the models by their names on the command line.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from laneway.simulator.models.adaptive import Adaptive
from laneway.simulator.models.alone import Alone
from laneway.simulator.models.gavel import Gavel
from laneway.simulator.models.lanes import Lanes
from laneway.simulator.models.lockstep import Lockstep
from laneway.simulator.models.speed_model import SpeedModel
from laneway.simulator.models.synergy import Synergy

MODELS: Mapping[str, Callable[..., SpeedModel]] = MappingProxyType(
    {
        "adaptive": Adaptive,
        "alone": Alone,
        "gavel": Gavel,
        "lanes": Lanes,
        "lockstep": Lockstep,
        "synergy": Synergy,
    }
)
