"""Synergy's own simulator (Mohan et al., OSDI'22), in small: the reference for our allocation policies on its workload.

Written from what ``simulator/`` of https://github.com/msr-fiddle/synergy does with the schedulers ``FIFO+fair`` and ``FIFO+tune`` and
jobs of one GPU. Time goes in rounds of 300 s. In each, all jobs are placed again, in order of arrival, wherever they ran before:

1. on the first server with a free GPU and the job's best demand;
2. else on the first one with a free GPU and its proportional share, at the speed of that share;
3. else on the server with the fewest free GPUs. The jobs there with the most CPUs get only their share, until the new one fits.

A job makes whole iterations in a round, and holds its GPU until the end of the round in which it ends. On the default workload
(:func:`workload`) this gives the mean JCT that the published simulator prints, to all digits: 21.8766 h (``FIFO+tune``) and 81.0886 h
(``FIFO+fair``).
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from laneway.scheduling.allocation.policy import MEBIBYTE
from laneway.scheduling.model.sensitivity import best_demand
from laneway.simulator.models.synergy import SENSITIVITIES, SHARE_CPU_MILLIS, SHARE_MEMORY_BYTES
from laneway.simulator.traces.synergy import ITERATION_SECONDS

ROUND_SECONDS = 300
SERVERS, GPUS_OF_SERVER = 16, 8
SERVER_CPU_MILLIS, SERVER_MEMORY_BYTES = (
    GPUS_OF_SERVER * SHARE_CPU_MILLIS,
    GPUS_OF_SERVER * SHARE_MEMORY_BYTES,
)

_TASKS: Sequence[tuple[float, Sequence[str]]] = (
    (0.20, ("alexnet", "res18", "res50", "mobilenet", "shufflenet")),
    (0.70, ("gnmt", "transformer", "lstm")),
    (0.10, ("m5", "deepspeech")),
)
"""Images, language, speech: their parts of the jobs, and their models, which take turns."""


class Line(NamedTuple):
    """A job of the workload; it needs one GPU."""

    number: int
    model: str
    submit_seconds: int
    iterations: int


class Need(NamedTuple):
    """What a job takes of its server, and its speed with that: 1 with the proportional share."""

    cpu_millis: int
    memory_bytes: int
    speed_ratio: float

    @property
    def exceeds_share(self) -> bool:
        """Whether it is more than the proportional share of anything."""
        return self.cpu_millis > SHARE_CPU_MILLIS or self.memory_bytes > SHARE_MEMORY_BYTES


SHARE = Need(SHARE_CPU_MILLIS, SHARE_MEMORY_BYTES, 1.0)


def workload(jobs: int, jobs_per_hour: float = 9.0, seed: int = 42) -> Iterator[Line]:
    """Yield the jobs that the published simulator draws: it seeds one generator with ``seed`` for their durations, and again for
    their arrivals. A fifth of them run for 10^3 to 10^4 minutes, the others for 10^1.5 to 10^3."""
    drawn = random.Random(seed)
    durations = [
        60 * 10 ** (drawn.uniform(3, 4) if drawn.random() >= 0.8 else drawn.uniform(1.5, 3))
        for _ in range(jobs)
    ]
    drawn, now_seconds, counts = random.Random(seed), 0, [0] * len(_TASKS)
    for number, duration_seconds in enumerate(durations):
        now_seconds += math.ceil(-math.log(1 - drawn.random()) / jobs_per_hour * 3600)
        drawn.randint(0, 9)  # a model at random, which is not used
        behind = [part - count / max(1, number) for (part, _), count in zip(_TASKS, counts, strict=True)]
        task = behind.index(max(behind)) if number else 0
        models = _TASKS[task][1]
        model = models[counts[task] % len(models)]
        counts[task] += 1
        yield Line(number, model, now_seconds, int(duration_seconds / ITERATION_SECONDS[model]))


def best_need(model: str) -> Need:
    """Return a model's best demand."""
    sensitivity = SENSITIVITIES[model]
    best = best_demand(sensitivity, SERVER_CPU_MILLIS, SERVER_MEMORY_BYTES, 0.0)
    with_share = sensitivity.ratio(SHARE_CPU_MILLIS, SHARE_MEMORY_BYTES)
    # As they were measured, without errors of interpolation: jobs of one size are in order of arrival, and whole iterations count.
    memory_bytes = round(best.memory_bytes / MEBIBYTE) * MEBIBYTE
    return Need(best.cpu_millis, memory_bytes, round(best.ratio / with_share, 6))


def completion_seconds(
    lines: Sequence[Line],
    measured: Collection[int],
    *,
    tune: bool,
    round_seconds: int = ROUND_SECONDS,
    whole_iterations: bool = True,
    keeps_servers: bool = False,
) -> Mapping[int, float]:
    """Return the JCT of each job that ends before the last measured one, by its number.

    Args:
        lines: the jobs, in order of arrival.
        measured: the numbers of the jobs that count. The others share GPUs and CPUs with them until these have ended.
        tune: whether jobs get their best demand where it fits; else all have proportional shares.
        round_seconds: the length of a round.
        whole_iterations: whether an iteration that does not end in its round is lost.
        keeps_servers: whether a job stays on the server on which it first ran.
    """
    best = {model: best_need(model) if tune else SHARE for model in ITERATION_SECONDS}
    left = {line.number: float(line.iterations) for line in lines}
    waiting = list(reversed(lines))
    active: list[Line] = []
    found: dict[int, float] = {}
    server_of: dict[Line, int] = {}
    now_seconds = 0
    left_over = set(measured)
    while left_over:
        while waiting and waiting[-1].submit_seconds <= now_seconds:
            active.append(waiting.pop())
        now_seconds += round_seconds
        servers = _placed(active, best, server_of)
        if keeps_servers:
            server_of = {line: server.number for server in servers for line in server.needs}
        for line, need in (held for server in servers for held in server.needs.items()):
            done = round_seconds / (ITERATION_SECONDS[line.model] / need.speed_ratio)
            left[line.number] -= math.floor(done) if whole_iterations else done
            if left[line.number] <= 0:
                found[line.number] = now_seconds - line.submit_seconds
                left_over.discard(line.number)
        active = [line for line in active if line.number not in found]
    return found


@dataclass(slots=True)
class _Server:
    number: int
    gpus: int = GPUS_OF_SERVER
    cpu_millis: int = SERVER_CPU_MILLIS
    memory_bytes: int = SERVER_MEMORY_BYTES
    needs: dict[Line, Need] = field(default_factory=dict)
    """Of its jobs. Their order decides between jobs of one size."""

    def lacks(self, need: Need) -> tuple[int, int]:
        """Return the CPUs and the memory that are missing for a need."""
        return max(0, need.cpu_millis - self.cpu_millis), max(0, need.memory_bytes - self.memory_bytes)

    def fits(self, need: Need) -> bool:
        """Whether a job with this need fits."""
        return self.gpus > 0 and not any(self.lacks(need))

    def hold(self, line: Line, need: Need) -> None:
        """Take a job, or change what it has."""
        before = self.needs.get(line)
        self.gpus -= before is None
        self.cpu_millis += (before.cpu_millis if before else 0) - need.cpu_millis
        self.memory_bytes += (before.memory_bytes if before else 0) - need.memory_bytes
        self.needs[line] = need

    def reduce_for(self, need: Need) -> None:
        """Reduce jobs to their shares, those with the most CPUs and memory first, until a job fits."""
        cpu_millis, memory_bytes = self.lacks(need)
        if not (cpu_millis or memory_bytes):
            return
        by_size = sorted(self.needs.items(), key=lambda held: held[1][:2], reverse=True)
        self.needs = dict(by_size)  # it sorts its list in place
        for line, held in by_size:
            if not (cpu_millis or memory_bytes):
                return
            if held.exceeds_share:
                self.hold(line, SHARE)
            cpu_millis = max(0, cpu_millis - max(0, held.cpu_millis - SHARE.cpu_millis))
            memory_bytes = max(0, memory_bytes - max(0, held.memory_bytes - SHARE.memory_bytes))


def _placed(
    active: Sequence[Line], best: Mapping[str, Need], server_of: Mapping[Line, int]
) -> Sequence[_Server]:
    """Return the servers with the jobs that run in a round.

    Args:
        active: the jobs, in order of arrival.
        best: the best demand of each model.
        server_of: where a job has to stay; the others may go anywhere.
    """
    servers = [_Server(number) for number in range(SERVERS)]
    for line in active[: SERVERS * GPUS_OF_SERVER]:
        allowed = [servers[server_of[line]]] if line in server_of else servers
        need = best[line.model]
        server = next((each for each in allowed if each.fits(need)), None)
        if server is None and need.exceeds_share:
            need = SHARE
            server = next((each for each in allowed if each.fits(need)), None)
        if server is None:
            server = min((each for each in allowed if each.gpus), key=lambda each: (each.gpus, each.number))
            server.reduce_for(need)
        server.hold(line, need)
    return servers
