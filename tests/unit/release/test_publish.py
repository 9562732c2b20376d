"""What of a release goes where in a registry. `tests/e2e` pushes to a real one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from hack.release import publish as module
from hack.release.failure import ReleaseError
from hack.release.oci_layout import Layout
from hack.release.publish import publish

EPOCH = 1_700_000_000


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The digests in a registry by reference, to which crane pushes."""
    there: dict[str, str] = {}

    def crane(command: Sequence[str | Path]) -> str:
        *_, verb, source, reference = ["", *command]
        if verb == "push":
            (named,) = json.loads((Path(source) / "index.json").read_bytes())["manifests"]
            assert (Path(source) / "blobs" / named["digest"].replace(":", "/")).exists()
            there[str(reference)] = named["digest"]
            return ""
        return f"{there[str(reference)]}\n"

    monkeypatch.setattr(module, "run", crane)
    monkeypatch.setattr(module, "built", lambda _: Path("crane"))
    return there


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, tags in (("operator", ["1.0"]), ("chart", ["1.0"]), ("chart.signatures", ["a.sig", "b.sig"])):
        layout = Layout(tmp_path / name)
        artifacts = {tag: layout.add_manifest(layout.add("config", tag.encode()), [], {}) for tag in tags}
        layout.write_all(tmp_path / f"laneway-{name}.oci.tar", artifacts, EPOCH)
    return tmp_path


def test_signatures_go_beside_what_they_sign(folder: Path, registry: dict[str, str]) -> None:
    assert publish(folder, "example.com/team", "1.0") == registry
    chart = "example.com/team/laneway/charts/laneway"
    assert set(registry) == {
        "example.com/team/laneway/operator:1.0", f"{chart}:1.0", f"{chart}:a.sig", f"{chart}:b.sig",
    }  # fmt: skip


def test_another_version_than_the_folders_is_refused(folder: Path, registry: dict[str, str]) -> None:
    with pytest.raises(ReleaseError, match=r"holds no release 1\.1: run `make release VERSION=1\.1` first"):
        publish(folder, "example.com", "1.1")
    assert registry == {}
