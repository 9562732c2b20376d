"""The archive of a released chart, packed by the real helm."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from hack.chart.generated import CHART
from hack.release import chart
from hack.release.chart import build_chart

EPOCH = 1_700_000_000
IMAGES = ("operator", "device-plugin", "node-agent", "client", "board")
DIGESTS = {name: f"sha256:{index:064x}" for index, name in enumerate(IMAGES)}


def built_from_a_copy(
    folder: Path, *, seconds: int, mode: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, dict[str, bytes]]:
    """What a release writes from a copy of the chart whose files have this time and this mode."""
    source, results = folder / "source", folder / "results"
    shutil.copytree(CHART, source)
    for path in source.rglob("*"):
        if path.is_file():
            path.chmod(mode)
            os.utime(path, (seconds, seconds))
    results.mkdir()
    monkeypatch.setattr(chart, "CHART", source)
    digest = build_chart(results, DIGESTS, EPOCH)
    return digest, {path.name: path.read_bytes() for path in results.iterdir()}


def test_the_same_chart_in_another_folder_and_of_another_time_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = built_from_a_copy(tmp_path / "one", seconds=EPOCH - 86_400, mode=0o644, monkeypatch=monkeypatch)
    second = built_from_a_copy(tmp_path / "another", seconds=EPOCH + 5, mode=0o600, monkeypatch=monkeypatch)
    assert sorted(first[1]) == ["laneway-0.1.0.tgz", "laneway-chart.oci.tar"]
    assert first == second


def test_no_time_but_that_of_the_release_is_in_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, files = built_from_a_copy(tmp_path, seconds=EPOCH + 5, mode=0o644, monkeypatch=monkeypatch)
    package = files["laneway-0.1.0.tgz"]
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        assert {member.mtime for member in archive} == {EPOCH}, "helm itself writes the present time"
    assert int.from_bytes(package[4:8], "little") == EPOCH, "the time in gzip's header"
