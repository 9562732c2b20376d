"""What the reference simulators say of the published traces, to be compared with what ours says.

All of it was measured with the simulators' own code:

- *Tiresias*: https://github.com/SymbioticLab/Tiresias, ``simulator/run_sim.py --scheme=count``, under Python 2.7, for which it is
  written (under Python 3 ``/`` divides differently in its demotion timer and its Gittins index, and figures change by up to 3 %);
  Muri's traces brought into its CSV form: milliseconds to seconds, the first columns kept.
- *Muri*: https://github.com/pkusys/Muri, ``simulator/run_sim.py --scheme=yarn --multi_resource 4``, under Python 3.11, once as it is
  and once with its overhead set to 0. A job's length there is ``iterations`` × ``iteration_time`` × 1.015, not ``duration``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import starmap


@dataclass(frozen=True, slots=True)
class ReferenceFigure:
    """What a reference simulator says of a policy on a trace. Times in seconds."""

    simulator: str
    trace: str
    """Its path below the folder of traces."""

    nodes: str
    policy: str
    """By our name."""

    its_policy: str
    """By the simulator's own name."""

    average_jct_seconds: float
    makespan_seconds: float
    preemptions: int | None = None
    """None: it does not say."""


TIRESIAS = "Tiresias"
MURI = "Muri"
MURI_WITHOUT_OVERHEAD = "Muri, overhead 0"

_CLUSTER, _TRACE3, _SIXTY = "muri/cluster_trace.csv", "muri/trace3.csv", "tiresias/60_job.csv"
_FIFO, _SRTF, _SRSF = ("fifo", "fifo"), ("srtf", "shortest"), ("srsf", "shortest-gpu")
_LAS, _GITTINS = ("tiresias-las", "dlas-gpu"), ("tiresias-gittins", "dlas-gpu-gittins")

FIGURES: tuple[ReferenceFigure, ...] = tuple(
    starmap(
        ReferenceFigure,
        (
            (TIRESIAS, _CLUSTER, "8x8", *_FIFO, 747_485.4, 3_883_693, 0),
            (TIRESIAS, _CLUSTER, "8x8", *_SRTF, 219_556.7, 3_812_814, 479),
            (TIRESIAS, _CLUSTER, "8x8", *_SRSF, 215_287.5, 3_761_336, 278),
            (TIRESIAS, _CLUSTER, "8x8", *_LAS, 291_019.6, 3_618_299, 594),
            (TIRESIAS, _CLUSTER, "8x8", *_GITTINS, 518_136.3, 3_673_863, 1_654),
            (TIRESIAS, _TRACE3, "8x8", *_FIFO, 991_167.0, 8_171_961, 0),
            (TIRESIAS, _TRACE3, "8x8", *_SRTF, 180_116.3, 8_171_961, 1_037),
            (TIRESIAS, _TRACE3, "8x8", *_SRSF, 172_683.7, 8_171_961, 749),
            (TIRESIAS, _TRACE3, "8x8", *_LAS, 312_869.6, 8_171_961, 1_303),
            (TIRESIAS, _TRACE3, "8x8", *_GITTINS, 489_478.5, 8_171_961, 3_333),
            (TIRESIAS, _SIXTY, "2x4", *_FIFO, 1_556.5, 5_747, 0),
            (TIRESIAS, _SIXTY, "2x4", *_SRTF, 519.9, 4_901, 7),
            (TIRESIAS, _SIXTY, "2x4", *_SRSF, 563.4, 4_962, 13),
            (TIRESIAS, _SIXTY, "2x4", *_LAS, 715.3, 4_806, 0),
            (TIRESIAS, _SIXTY, "2x4", *_GITTINS, 821.2, 4_753, 88),
            (TIRESIAS, _SIXTY, "4x4", *_FIFO, 200.8, 3_335, 0),
            (TIRESIAS, _SIXTY, "4x4", *_SRTF, 192.1, 3_271, 4),
            (TIRESIAS, _SIXTY, "4x4", *_SRSF, 195.9, 3_315, 7),
            (TIRESIAS, _SIXTY, "4x4", *_LAS, 190.7, 3_271, 0),
            (TIRESIAS, _SIXTY, "4x4", *_GITTINS, 219.1, 3_271, 35),
            (MURI, _CLUSTER, "8x8", *_SRTF, 247_453.0, 4_066_820),
            (MURI, _CLUSTER, "8x8", *_SRSF, 233_909.2, 4_198_587),
            (MURI, _CLUSTER, "8x8", *_LAS, 328_736.5, 3_991_729),
            (MURI, _TRACE3, "8x8", *_SRTF, 193_081.8, 8_174_135),
            (MURI, _TRACE3, "8x8", *_SRSF, 185_021.9, 8_174_135),
            (MURI, _TRACE3, "8x8", *_LAS, 347_213.2, 8_174_226),
            (MURI_WITHOUT_OVERHEAD, _CLUSTER, "8x8", *_SRTF, 244_178.3, 4_126_386),
            (MURI_WITHOUT_OVERHEAD, _CLUSTER, "8x8", *_SRSF, 230_716.6, 4_145_703),
            (MURI_WITHOUT_OVERHEAD, _CLUSTER, "8x8", *_LAS, 326_325.7, 3_979_774),
            (MURI_WITHOUT_OVERHEAD, _TRACE3, "8x8", *_SRTF, 190_377.4, 8_173_903),
            (MURI_WITHOUT_OVERHEAD, _TRACE3, "8x8", *_SRSF, 183_966.0, 8_173_903),
            (MURI_WITHOUT_OVERHEAD, _TRACE3, "8x8", *_LAS, 340_306.3, 8_173_903),
        ),
    )
)
