"""The GPU benchmark's tables and calculations, and the wheels for a machine without network."""

from __future__ import annotations

import pytest

from tests.gpu.wheels import LOCK, PACKAGES, locked
from tests.performance.gpu.plan import plan_for
from tests.performance.gpu.tables import GPU

GIB = 1 << 30


def way(name: str, samples: float, memory: int | None) -> dict[str, object]:
    return {
        "way": name,
        "rounds": 2,
        "samples_per_second": samples,
        "makespan_seconds": 5.0,
        "makespan_spread_percent": 1.5,
        "mean_jct_seconds": 4.25,
        "beyond_idle_bytes": memory,
    }


def test_each_way_stands_beside_one_after_the_other() -> None:
    network = {
        "network": "resnet50",
        "torch": "2.9.0",
        "cuda": "13.0",
        "batch": 64,
        "iterations_per_job": 100,
        "left_out": {"MPS": "it does not start"},
        "crowds": [
            {"jobs": 2, "ways": [way("one after the other", 1000, None), way("lanes", 1250, 3 * GIB)]}
        ],
    }
    _, show = GPU.sections["gpu-sharing"]
    text = "".join(show({"gpu": {"name": "NVIDIA Test", "driver": "600.1"}, "networks": [network]}))
    assert "GPU: NVIDIA Test, driver 600.1." in text
    assert "Left out: MPS (it does not start)." in text
    assert "| 2 | lanes | 1,250 | 1.25 | 4.25 s | 5.00 s | 1.5 % | 3.00 GiB |" in text


def test_a_small_gpu_gets_fewer_jobs_and_smaller_batches() -> None:
    large, small = plan_for("cuda", 140 * GIB), plan_for("cuda", 24 * GIB)
    assert (large.most_jobs, small.most_jobs) == (4, 2)
    assert small.batches["resnet50"] < large.batches["resnet50"]
    assert plan_for("cpu", 0).size == "tiny"


def test_the_wheels_are_the_locked_ones_with_their_hashes() -> None:
    entries = locked(LOCK.read_text(encoding="utf-8"), PACKAGES)
    assert entries.count("==") == len(PACKAGES)
    assert entries.count("--hash=sha256:") >= len(PACKAGES)
    assert "\npydantic-core==" in entries
    with pytest.raises(ValueError, match="no-such-package: not in the lock file"):
        locked("a==1 \\\n    --hash=sha256:0\n", ("no-such-package",))
