"""For which machines images are built."""

from __future__ import annotations

import pytest

from hack.images import architectures
from hack.images.architectures import host
from hack.images.chroot import ImageError


@pytest.mark.parametrize(("machine", "name"), [("x86_64", "amd64"), ("aarch64", "arm64")])
def test_a_machine_has_the_name_that_images_have(
    monkeypatch: pytest.MonkeyPatch, machine: str, name: str
) -> None:
    monkeypatch.setattr(architectures.platform, "machine", lambda: machine)
    assert host() == name


def test_no_image_is_built_for_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(architectures.platform, "machine", lambda: "riscv64")
    with pytest.raises(ImageError, match="no image is built for riscv64"):
        host()
