"""A small application with simple curves, so that results can be calculated by hand."""

from __future__ import annotations

from pathlib import Path

STEP_SECONDS = {"1": 1.0, "2": 1.2, "4": 1.4, "11": 1.6, "22": 2.0, "44": 2.4}
"""The duration of a step with 10 samples for each replica, 1 s of it computing; with 20 samples, both are 1 s longer."""

HEADER = "name,time,application,num_replicas,batch_size\n"


def write_curves(folder: Path, name: str = "toy") -> Path:
    """Write the curves of an application with two epochs of 100 steps at a batch size of 10, and return its folder.

    Its gradients are so noisy that a batch twice as large is worth nearly twice as much.
    """
    path = folder / name
    path.mkdir(parents=True)
    placements = [
        f"{placement},{local},{seconds + extra},{seconds - 1}"
        for placement, seconds in STEP_SECONDS.items()
        for local, extra in ((10, 0.0), (20, 1.0))
    ]
    _write(path / "placements.csv", "placement,local_bsz,step_time,sync_time", placements)
    scaling = [f"4,{replicas},{local},{local / 10 + 2},2" for replicas in (8, 16) for local in (10, 20)]
    _write(path / "scalability.csv", "num_nodes,num_replicas,local_bsz,step_time,sync_time", scaling)
    for batch in (10, 160):
        epochs = [f"100,100,0.5,1,{batch}", f"200,200,0.6,1,{2 * batch}"]
        _write(path / f"validation-{batch}.csv", "progress,iteration,metric,grad_sqr,grad_var", epochs)
    return path


def write_workload(path: Path, *lines: str) -> Path:
    """Write a workload with these jobs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEADER + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def _write(path: Path, header: str, lines: list[str]) -> None:
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
