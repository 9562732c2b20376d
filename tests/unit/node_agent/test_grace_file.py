"""What is saved of spent grace."""

from __future__ import annotations

from pathlib import Path

import pytest
from laneway.node_agent.enforcement.grace_file import GRACE_NAME, GraceFile, SpentGrace

SPENT = SpentGrace(gpu="GPU-1", key="a" * 16, pod_uid="u", cgroup="c1", spent_seconds=7)


def test_spent_grace_is_read_back(tmp_path: Path) -> None:
    GraceFile(tmp_path).write([SPENT])
    assert GraceFile(tmp_path).read() == (SPENT,)


def test_the_file_is_written_only_when_a_figure_changed(tmp_path: Path) -> None:
    file = GraceFile(tmp_path)
    file.write([])
    assert not (tmp_path / GRACE_NAME).exists(), "a node where all keep their quotas writes nothing"
    file.write([SPENT])
    (tmp_path / GRACE_NAME).unlink()
    file.write([SPENT])
    assert not (tmp_path / GRACE_NAME).exists()
    file.write([])
    assert GraceFile(tmp_path).read() == ()


@pytest.mark.parametrize("text", ["", "{}", '{"version": 2, "spent": []}'])
def test_an_unusable_file_is_reported_and_replaced(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / GRACE_NAME).write_text(text)
    file = GraceFile(tmp_path)
    assert file.read() == ()
    assert "spent grace is lost" in caplog.text
    file.write([SPENT])
    assert GraceFile(tmp_path).read() == (SPENT,)


def test_a_folder_that_cannot_be_written_to_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = GraceFile(tmp_path / "missing")
    file.write([SPENT])
    file.write([SPENT.model_copy(update={"spent_seconds": 8})])
    assert caplog.text.count("cannot save spent grace") == 1
