"""Jobs whose goodput is known, for tests of elastic policies."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st
from laneway.scheduling.elastic.policy import ElasticJob
from laneway.scheduling.model.efficiency import Efficiency
from laneway.scheduling.model.goodput import BatchLimits, GoodputModel
from laneway.scheduling.model.throughput import ThroughputModel

TRAINED = GoodputModel(
    ThroughputModel(0.02, 0.001, 0.12, 0.002, 0.03, 0.001, 2.0),
    Efficiency(128, 2000.0),
    BatchLimits(4096, 1024, 32),
    explored_replicas=64,
)
"""About what CIFAR-10 is in Pollux' measurements."""


def an_elastic(key: str = "default/a", **fields: Any) -> ElasticJob:
    """A job that was submitted at 0, runs with 1 to 64 workers and trains as ``TRAINED``; it waits."""
    return ElasticJob(
        **{"key": key, "min_workers": 1, "max_workers": 64, "created_seconds": 0.0, "goodput": TRAINED}
        | fields
    )


def models() -> st.SearchStrategy[GoodputModel]:
    """Goodput models of every kind, whose network between nodes is no faster than within one."""
    seconds = st.floats(1e-3, 2.0)
    return st.builds(
        lambda compute, per_sample, intra, growth, worse, gamma, initial, noise, batches, local, explored: (
            GoodputModel(
                ThroughputModel(compute, per_sample, intra * worse, growth * worse, intra, growth, gamma),
                Efficiency(initial, noise),
                BatchLimits(initial * batches, initial * local),
                explored,
            )
        ),
        seconds,
        st.floats(1e-5, 0.1),
        st.floats(0.0, 2.0),
        st.floats(0.0, 0.05),
        st.floats(1.0, 5.0),
        st.floats(1.0, 10.0),
        st.integers(1, 256),
        st.floats(0.0, 1e5),
        st.integers(1, 64),
        st.integers(1, 4),
        st.integers(1, 32),
    )


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[ElasticJob], dict[str, int]]:
    """Some nodes with free GPUs, and jobs, some of which hold part of them."""
    nodes = draw(st.integers(1, 4))
    size = draw(st.sampled_from([1, 2, 4, 8]))
    free = {f"n{number}": draw(st.integers(0, size)) for number in range(nodes)}
    left = dict(free)
    jobs = []
    for number in range(draw(st.integers(0, 7))):
        gpus = draw(st.sampled_from([1, 1, 1, 2]))
        least = draw(st.integers(1, 3))
        most = least + draw(st.integers(0, 8))
        held = {node: draw(st.integers(0, count // gpus)) for node, count in left.items()}
        by_node = tuple(count for count in held.values() if count)
        holds = least <= sum(by_node) <= most
        if holds:
            for node, count in held.items():
                left[node] -= count * gpus
        jobs.append(
            ElasticJob(
                f"default/{number}",
                least,
                most,
                draw(st.floats(0.0, 1000.0)),
                by_node if holds else (),
                gpus,
                draw(st.floats(0.0, 1e5)),
                draw(st.integers(0, 5)),
                draw(st.none() | models()),
                draw(st.booleans()),
            )
        )
    return jobs, free


def shuffled(jobs: list[ElasticJob], seed: int) -> list[ElasticJob]:
    """The same jobs in another order."""
    jobs = list(jobs)
    random.Random(seed).shuffle(jobs)
    return jobs
