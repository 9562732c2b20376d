"""How progress is shown."""

from __future__ import annotations

from typing import Any

import pytest
from laneway.cli.progress_format import data_time, goodput, percent, progress

from tests.support.training_jobs import CREATED, CREATED_SECONDS, PLACED, a_condition, a_job

NOW = CREATED_SECONDS + 95
RUNNING: dict[str, Any] = {"placement": PLACED, "conditions": [a_condition("Running")]}
MADE: dict[str, Any] = {
    "iterations": 251,
    "step": 250,
    "steps": 1000,
    "percent": 25,
    "epoch": 2,
    "loss": "0.5",
    "remainingSeconds": 545,
    "updatedAt": CREATED,
}


@pytest.mark.parametrize(
    ("job", "want"),
    [
        (a_job(), ""),
        (a_job(progress={"iterations": 7}), "7 iterations"),
        (a_job(progress={"iterations": 7, "loss": "NaN"}), "7 iterations, loss NaN"),
        (a_job(progress={"iterations": 7, "step": 5}), "step 5"),
        (
            a_job(progress=MADE, **RUNNING),
            "step 250 of 1000 (25%), epoch 2, loss 0.5, about 7m30s left",
        ),
        (a_job(progress=MADE), "step 250 of 1000 (25%), epoch 2, loss 0.5, about 9m5s left"),
        (
            a_job(progress=MADE, conditions=[a_condition("Complete")]),
            "step 250 of 1000 (25%), epoch 2, loss 0.5",
        ),
    ],
)
def test_progress(job: dict[str, Any], want: str) -> None:
    assert progress(job, NOW) == want


def test_percent() -> None:
    assert percent(a_job(progress=MADE)) == "25%"
    assert percent(a_job(progress={"iterations": 7})) == "-"
    assert percent(a_job()) == "-"


def test_the_time_for_data_is_shown_if_there_is_any() -> None:
    assert data_time({"dataMicroseconds": 1500}) == ", 1.5 ms before each for data"
    assert data_time({}) == ""


def test_goodput_is_shown_as_far_as_it_is_known() -> None:
    batch = {"ranks": 2, "localBatch": 64, "passes": 2}
    assert goodput({}) == ""
    assert goodput({"batch": batch}) == "batch 256"
    known = {
        "batch": {**batch, "noiseScale": 384},
        "efficiencyPercent": 80,
        "milliSamplesPerSecond": 409_600,
    }
    assert goodput(known) == "409.6 samples/s, batch 256, efficiency 80%, noise scale 384"
    assert goodput({"batch": batch}, 512) == "batch 256 (512 chosen for this attempt)"
