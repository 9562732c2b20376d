"""Processes of a test's GPU that train at once and slow each other: a device of one throughput, under the test's clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.support.node_agent.gpu_bench import GPUBench, Process

STEP_SECONDS = 0.005


@dataclass(slots=True)
class Trainer:
    """A process that trains without a pause."""

    process: Process
    iteration_seconds: float = 0.02
    """An iteration's time alone."""

    demand: float = 1.0
    """The part of the device that it needs to run at full speed."""

    gap_seconds: float = 0.0
    """How long it rests after each iteration."""

    stalls: bool = False
    """It does not end its current iteration."""

    done_seconds: float = 0.0
    progress_seconds: float = 0.0
    resting_seconds: float = 0.0

    def step(self, speed: float) -> None:
        """Compute for one step."""
        self.progress_seconds += speed * STEP_SECONDS
        self.done_seconds += speed * STEP_SECONDS
        if self.done_seconds >= self.iteration_seconds - 1e-9 and not self.stalls:
            self.done_seconds = 0.0
            self.process.end()
            self.resting_seconds = self.gap_seconds
            self._yield_if_asked()

    def _yield_if_asked(self) -> None:
        if self.process.holds_turn and self.process.asked_to_yield:
            self.process.release()
            if not self.resting_seconds:
                self.process.request()

    def continue_training(self) -> None:
        """Begin the next iteration if the turn allows it, else wait for a turn."""
        if self.resting_seconds > STEP_SECONDS / 2:
            self.resting_seconds -= STEP_SECONDS
            self._yield_if_asked()
            return
        self.resting_seconds = 0.0
        if self.process.holds_turn and not self.process.page.inside:
            self.process.begin()
        elif not self.process.holds_turn and not self.process.session.requested:
            self.process.request()


def train(bench: GPUBench, trainers: Sequence[Trainer], seconds: float) -> list[float]:
    """Let them train; return the progress of each, in seconds of the device alone per second."""
    before = [each.progress_seconds for each in trainers]
    for _ in range(round(seconds / STEP_SECONDS)):
        for trainer in trainers:
            trainer.continue_training()
        running = [each for each in trainers if each.process.page.inside]
        speed = 1.0 / max(1.0, sum(each.demand for each in running))
        bench.clock.advance(STEP_SECONDS)
        for trainer in running:
            trainer.step(speed)
    return [(each.progress_seconds - done) / seconds for each, done in zip(trainers, before, strict=True)]
