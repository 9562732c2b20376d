"""The example of a gang with checkpoints: real PyTorch, two ranks on gloo, and one of them gets SIGTERM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.client.jobs import EXAMPLES, Job

MANY_STEPS = 1_000_000
SMALL = ("--batch=64", "--width=8", "--blocks=1")


@pytest.fixture
def ranks(
    tmp_path: Path, run: Callable[..., Job], rendezvous_port: Callable[[], int]
) -> Callable[[int], list[Job]]:
    """Starts both ranks of the example, which share a folder."""
    nobody, work = tmp_path / "nobody", tmp_path / "work"
    nobody.mkdir()

    def start(steps: int) -> list[Job]:
        port = str(rendezvous_port())
        return [
            run(
                "digits_ddp_long.py",
                f"--steps={steps}",
                "--checkpoint-dir=checkpoints",
                *SMALL,
                work=work,
                laneway=nobody,
                scripts=EXAMPLES,
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=port,
                WORLD_SIZE="2",
                RANK=str(rank),
            )
            for rank in (0, 1)
        ]

    return start


@pytest.mark.long
def test_the_ranks_of_the_example_stop_and_resume_together(ranks: Callable[[int], list[Job]]) -> None:
    first = ranks(MANY_STEPS)
    while not first[0].line().startswith("step"):
        pass  # it trains
    first[1].terminate()
    ends = [job.failure() for job in first]
    assert [status for status, _, _ in ends] == [143, 143], ends

    results = [
        job.results() for job in ranks(1)
    ]  # fewer steps than they have done: they resume and end at once
    assert [said[-1]["event"] for said in results] == ["end", "end"]
    starts = [said[0]["step"] for said in results]
    assert starts[0] == starts[1] >= 50, "both at the step at which they had stopped"
