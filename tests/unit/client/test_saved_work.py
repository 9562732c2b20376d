"""Since when work would be lost: which files last, and what the agent is sent."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from laneway.client.pytorch import checkpoint_watch
from laneway.client.reporting import saved_work
from laneway.client.reporting.mounts import is_lasting, outlives_container
from laneway.client.reporting.profile import Profiler
from laneway.client.reporting.progress import Progress
from laneway.client.reporting.saved_work import SavedWork

MOUNTS = """\
1 0 0:50 / / rw - overlay overlay rw,lowerdir=/layers
2 1 0:51 / /dev/shm rw - tmpfs shm rw
3 1 8:1 /var/lib/kubelet/pods/1-2/volumes/kubernetes.io~empty-dir/scratch /scratch rw - ext4 /dev/sda1 rw
4 1 8:1 /var/lib/laneway-shared /checkpoints rw,relatime shared:9 - ext4 /dev/sda1 rw
5 1 0:60 / /my\\040data rw - nfs4 server:/export rw
6 4 0:61 / /checkpoints/fast rw - tmpfs tmpfs rw
7 1 0:62 / /twice rw - tmpfs tmpfs rw
8 1 8:2 / /twice rw - xfs /dev/sdb rw
"""
ON_A_HOST = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:50 / /tmp rw - tmpfs tmpfs rw\n"


@pytest.mark.parametrize(
    ("path", "lasting"),
    [
        ("/model.pt", False),
        ("/root/checkpoints/model.pt", False),
        ("/dev/shm/model.pt", False),
        ("/scratch/model.pt", False),
        ("/checkpoints/job/model.pt", True),
        ("/checkpoints", True),
        ("/checkpoints-of-others/model.pt", False),
        ("/checkpoints/fast/model.pt", False),
        ("/my data/model.pt", True),
        ("/twice/model.pt", True),
    ],
)
def test_files_of_volumes_outlive_the_container(path: str, lasting: bool) -> None:
    assert is_lasting(path, MOUNTS) is lasting


def test_without_a_container_the_hosts_disk_counts() -> None:
    assert is_lasting("/home/me/model.pt", ON_A_HOST)
    assert not is_lasting("/tmp/model.pt", ON_A_HOST)
    assert is_lasting("/model.pt", "")
    assert outlives_container("s3://bucket/model.pt")


class Agent:
    has_agent = True

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send_message(self, kind: str, **fields: Any) -> None:
        assert kind == "report"
        self.sent.append(fields)


class Training:
    """A training at a time that only the test advances."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.agent = Agent()
        self.progress = Progress(Profiler())
        self.now_seconds = 1000.0
        monkeypatch.setattr(saved_work.time, "time", lambda: self.now_seconds)

    def boundary(self) -> dict[str, Any] | None:
        if not self.progress.pending:
            return None
        self.progress.flush(self.agent)  # type: ignore[arg-type]
        return self.agent.sent[-1]


def test_the_agent_hears_of_the_first_step_and_of_each_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(monkeypatch)
    assert training.boundary() is None
    training.progress.begin_training(100)
    began = {"unsaved_since": 1000.0, "checkpointed": False, "loaded_from": None, "remaining_seconds": None}
    assert training.boundary() == began
    training.progress.begin_training(50)
    assert training.boundary() is None, "another optimizer's first step changes nothing"
    training.now_seconds = 1300.0
    training.progress.note_save(1250.0)
    assert training.boundary() == {**began, "unsaved_since": 1250.0, "checkpointed": True}
    training.progress.update({"step": 7}, 7, training.agent)  # type: ignore[arg-type]
    assert training.agent.sent[-1]["unsaved_since"] == 1250.0
    training.progress.resend()
    again = training.boundary()
    assert again is not None
    assert again["unsaved_since"] == 1250.0, "a new agent is told again"


def test_what_is_saved_before_the_training_saves_none_of_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(monkeypatch)
    training.progress.note_save(990.0)
    training.progress.begin_training(100)
    sent = training.boundary()
    assert sent is not None
    assert (sent["unsaved_since"], sent["checkpointed"]) == (1000.0, False)


def test_saves_that_overlap_count_by_their_beginning() -> None:
    work = SavedWork()
    work.note_save(20.0)
    work.note_save(10.0)
    assert work.saved_at == 20.0


def test_only_a_loaded_file_that_may_hold_the_model_resumes_it() -> None:
    work = SavedWork()
    for elements, written_at in ((5, 900.0), (100, 700.0), (150, 800.0)):
        work.note_load(elements, written_at)
    assert work.begin_training(100)
    assert work.loaded_from == 800.0
    work.note_load(100, 950.0)
    assert work.fields()["loaded_from"] == 800.0, "the best model, loaded at the end"
    fresh = SavedWork()
    fresh.note_load(5, 900.0)
    fresh.begin_training(100)
    assert fresh.loaded_from is None


def test_after_many_files_no_other_is_looked_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    looked_at: list[str] = []
    progress = Progress(Profiler())
    client = SimpleNamespace(guard=SimpleNamespace(progress=progress))
    monkeypatch.setattr(checkpoint_watch, "client", lambda: client)

    def outlives(path: str) -> bool:
        looked_at.append(path)
        return True

    monkeypatch.setattr(checkpoint_watch, "outlives_container", outlives)
    watch = object.__new__(checkpoint_watch.CheckpointWatch)
    tensor = type("Tensor", (), {"numel": lambda self: 5})
    watch._torch = SimpleNamespace(Tensor=tensor, nn=SimpleNamespace(Module=type(None)))
    sample = tmp_path / "sample.pt"
    sample.touch()
    for _ in range(saved_work.REMEMBERED_LOADS + 50):
        watch._note_load([tensor()], sample)
    assert len(looked_at) == saved_work.REMEMBERED_LOADS


def test_without_an_agent_nothing_is_kept_for_it() -> None:
    progress = Progress(Profiler(), has_agent=False)
    progress.begin_training(1)
    progress.note_save(2.0)
    assert not progress.pending
