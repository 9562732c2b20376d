"""`report`: what a script may say of its training."""

from __future__ import annotations

from typing import Any

from laneway.client.runtime import client


def report(loss: Any = None, step: Any = None, steps: Any = None, epoch: Any = None) -> None:
    """Says how far the training is: it ends in the TrainingJob's `status.progress` and in metrics.

    It may be called as often as a script likes, from any thread: at most one packet a second goes out, and the last word always. What is
    left out stays as it was said before. All may be numbers, or tensors or arrays of one element: one on a device is read when it is
    sent, not at each call. Values that make no sense are left out, with one warning; nothing is ever raised for them. Without an agent
    nothing happens.

    Args:
        loss: any number, NaN and infinity too.
        step: how many steps are done, over all lives of the job where it resumes.
        steps: how many there are in all. With it, what is left is known: to users, and to policies that go by it.
        epoch: the epoch that goes on.
    """
    gate = client().gate
    gate.progress.take(
        {"loss": loss, "step": step, "steps": steps, "epoch": epoch}, gate.iterations, gate.session
    )
