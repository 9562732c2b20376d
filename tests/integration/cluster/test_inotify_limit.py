"""The limit on inotify instances is raised while there are clusters, and restored afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.cluster.inotify_limit import raise_limit, restore_limit
from hack.cluster.layout import EmbeddedCluster


@pytest.fixture
def setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANEWAY_STATE", str(tmp_path / "state"))
    (tmp_path / "setting").write_text("128\n")
    return tmp_path / "setting"


def test_the_limit_comes_back_with_the_last_cluster(setting: Path) -> None:
    for name in ("first", "second"):
        raise_limit(setting, enough=1000)
        EmbeddedCluster(name, 100, 1).save()
    assert setting.read_text() == "1000"
    (EmbeddedCluster("first", 100, 1).folder / "cluster.json").unlink()
    restore_limit(setting)
    assert setting.read_text() == "1000", "the second cluster still needs it"
    (EmbeddedCluster("second", 100, 1).folder / "cluster.json").unlink()
    restore_limit(setting)
    assert setting.read_text() == "128"


def test_a_limit_that_is_high_enough_is_left_alone(setting: Path) -> None:
    setting.write_text("4096\n")
    raise_limit(setting, enough=1000)
    restore_limit(setting)
    assert setting.read_text() == "4096\n"
