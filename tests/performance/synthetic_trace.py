"""A seeded trace of any size, shaped like the traces that Muri published.

Two jobs of three want 8 GPUs, one of nine wants 32; how long they run spans five orders of magnitude; together they ask for all
that the cluster has, so a queue forms and never quite goes away. Everything is in whole seconds, which is what the reference
simulators read. Run as a module, it writes the trace in the CSV form of Tiresias' simulator:

    python -m tests.performance.synthetic_trace --jobs 10000 -o trace.csv
"""

from __future__ import annotations

import argparse
import csv
import random
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from laneway.scheduling import Demand
from laneway.simulator.trace import TraceJob

GPU_WEIGHTS = {1: 13, 2: 3, 4: 4, 8: 68, 16: 1, 32: 11}
"""Jobs in a hundred, by the number of their GPUs: Muri's two larger traces together, rounded."""

DURATION_LOG_MEAN = 8.2
DURATION_LOG_DEVIATION = 2.9
"""Of the natural logarithm of a duration in seconds: the median is 3,600 s; measured on the same traces."""

LONGEST_SECONDS = 927_475
"""The longest job of these traces: about eleven days."""

GPUS = 512
LOAD_RATIO = 1.0
SEED = 4


def synthetic_trace(
    jobs: int, seed: int = SEED, *, gpus: int = GPUS, load_ratio: float = LOAD_RATIO
) -> tuple[TraceJob, ...]:
    """Return a trace, ordered by submission; the same arguments give the same trace.

    Args:
        jobs: how many.
        seed: of the generator of random numbers.
        gpus: how many GPUs the cluster has that the trace is made for.
        load_ratio: GPU time that the jobs need, over what the cluster has from the first submission to the last.
    """
    if jobs < 1:
        raise ValueError(f"jobs is {jobs}: write 1 or more")
    if gpus < max(GPU_WEIGHTS):
        raise ValueError(f"gpus is {gpus}: the largest job wants {max(GPU_WEIGHTS)}")
    if load_ratio <= 0:
        raise ValueError(f"load_ratio is {load_ratio}: write more than 0")
    generator = random.Random(seed)
    sizes = generator.choices(list(GPU_WEIGHTS), list(GPU_WEIGHTS.values()), k=jobs)
    durations = [_duration_seconds(generator) for _ in range(jobs)]
    gaps = list(accumulate(generator.expovariate(1.0) for _ in range(jobs)))
    work_gpu_seconds = sum(size * duration for size, duration in zip(sizes, durations, strict=True))
    stretch = work_gpu_seconds / (gpus * load_ratio) / gaps[-1]
    return tuple(
        TraceJob(f"default/{index}", Demand(size), float(int(gap * stretch)), float(duration))
        for index, (size, duration, gap) in enumerate(zip(sizes, durations, gaps, strict=True))
    )


def write_tiresias_csv(trace: Sequence[TraceJob], path: Path) -> None:
    """Write a trace of whole seconds in the form that Tiresias' simulator reads."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "interval")
        )
        before_seconds = 0
        for job in trace:
            submit_seconds = int(job.submit_seconds)
            name = job.key.rpartition("/")[2]
            duration_seconds = int(job.duration_seconds)
            interval_seconds = submit_seconds - before_seconds
            writer.writerow(
                (
                    name,
                    job.demand.gpus,
                    submit_seconds,
                    duration_seconds,
                    "resnet50",
                    duration_seconds,
                    interval_seconds,
                )
            )
            before_seconds = submit_seconds


def _duration_seconds(generator: random.Random) -> int:
    drawn = generator.lognormvariate(DURATION_LOG_MEAN, DURATION_LOG_DEVIATION)
    return max(1, min(int(drawn), LONGEST_SECONDS))


def main() -> None:
    """Write a trace to a file."""
    parser = argparse.ArgumentParser(
        description="Write a seeded trace in the CSV form of Tiresias' simulator."
    )
    parser.add_argument("--jobs", type=int, default=10_000, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="default: %(default)s")
    parser.add_argument("--gpus", type=int, default=GPUS, help="of the cluster (default: %(default)s)")
    parser.add_argument(
        "--load", type=float, default=LOAD_RATIO, help="of the cluster, 1 is all of it (default: %(default)s)"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="the file to write")
    arguments = parser.parse_args()
    trace = synthetic_trace(arguments.jobs, arguments.seed, gpus=arguments.gpus, load_ratio=arguments.load)
    write_tiresias_csv(trace, arguments.output)


if __name__ == "__main__":
    main()
