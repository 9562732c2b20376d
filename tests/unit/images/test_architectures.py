"""Whether a machine can set up images for another architecture."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.images import architectures
from hack.images.architectures import host, require_emulation
from hack.images.chroot import ImageError

ENABLED = "enabled\ninterpreter /usr/libexec/qemu-binfmt/aarch64-binfmt-P\nflags: POCF\n"


@pytest.fixture
def on_amd64(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(architectures.platform, "machine", lambda: "x86_64")


@pytest.mark.usefixtures("on_amd64")
def test_a_machine_runs_its_own_programs(tmp_path: Path) -> None:
    assert host() == "amd64"
    require_emulation("amd64", tmp_path)


@pytest.mark.usefixtures("on_amd64")
def test_a_machine_runs_others_with_qemu_only(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"does not run arm64 programs.*apt-get install qemu-user-static"):
        require_emulation("arm64", tmp_path)
    (tmp_path / "qemu-aarch64").write_text(ENABLED, encoding="utf-8")
    require_emulation("arm64", tmp_path)
    (tmp_path / "qemu-aarch64").write_text(ENABLED.replace("enabled", "disabled"), encoding="utf-8")
    with pytest.raises(ImageError, match="does not run arm64 programs"):
        require_emulation("arm64", tmp_path)


def test_no_image_is_built_for_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(architectures.platform, "machine", lambda: "riscv64")
    with pytest.raises(ImageError, match="no image is built for riscv64"):
        host()
