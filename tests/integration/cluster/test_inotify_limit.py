"""The limit on inotify instances is raised while there are clusters or control planes, and restored afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hack.cluster.inotify_limit import raise_limit, raised_limit, restore_limit
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


def test_the_last_holder_restores_it(setting: Path) -> None:
    with raised_limit(setting, enough=1000):
        with raised_limit(setting, enough=1000):
            raise_limit(setting, enough=1000)
            restore_limit(setting)
        assert setting.read_text() == "1000", "the first still needs it"
    assert setting.read_text() == "128"


def test_a_cluster_outlives_a_holder(setting: Path) -> None:
    with raised_limit(setting, enough=1000):
        EmbeddedCluster("cluster", 100, 1).save()
    assert setting.read_text() == "1000"


HOLDER = """
import sys
from pathlib import Path
from hack.cluster.inotify_limit import raised_limit
with raised_limit(Path(sys.argv[1]), 1000):
    print("holds", flush=True)
    sys.stdin.read()
"""


def test_a_killed_holder_keeps_nothing(setting: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(setting)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"holds\n"
        restore_limit(setting)
        assert setting.read_text() == "1000"
        holder.kill()
    restore_limit(setting)
    assert setting.read_text() == "128"


def test_a_limit_that_may_not_be_changed_is_left_alone(
    setting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    with raised_limit(setting, enough=1000):
        assert setting.read_text() == "128\n"
