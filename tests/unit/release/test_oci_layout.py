"""OCI layouts and the archives that hold them."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from hack.cluster.images import archive_images, write_static_image
from hack.release.archive import write_tar
from hack.release.oci_layout import INDEX, Layout

EPOCH = 1_700_000_000


@pytest.fixture
def image(tmp_path: Path) -> Path:
    program = tmp_path / "program"
    program.write_bytes(b"a static program")
    archive = tmp_path / "image.tar"
    write_static_image(archive, "localhost/laneway/program:1", program)
    return archive


def written(folder: Path, image: Path) -> Path:
    folder.mkdir()
    layout = Layout(folder / "layout")
    index = layout.add_index([layout.add_image(image)], {"org.opencontainers.image.version": "1"})
    layout.write(folder / "all.tar", "localhost/laneway/program:1", index, EPOCH)
    return folder / "all.tar"


def test_a_layout_names_the_index_of_its_images(tmp_path: Path, image: Path) -> None:
    archive = written(tmp_path / "one", image)
    (digest,) = archive_images(archive).values()
    with tarfile.open(archive) as layout:
        file = layout.extractfile(f"blobs/{digest.replace(':', '/')}")
        assert file is not None
        content = file.read()
    index = json.loads(content)
    assert f"sha256:{hashlib.sha256(content).hexdigest()}" == digest
    assert index["mediaType"] == INDEX
    (manifest,) = index["manifests"]
    assert manifest["platform"]["os"] == "linux"
    assert manifest["platform"]["architecture"] in ("amd64", "arm64")


def test_equal_images_give_equal_archives(tmp_path: Path, image: Path) -> None:
    assert written(tmp_path / "one", image).read_bytes() == written(tmp_path / "two", image).read_bytes()


@pytest.mark.parametrize("name", ["files.tar", "files.tar.gz", "files.tgz"])
def test_an_archive_holds_one_time_and_root_as_owner(tmp_path: Path, name: str) -> None:
    (tmp_path / "text").write_text("b", encoding="utf-8")
    write_tar(tmp_path / name, {"b": tmp_path / "text", "a": b"a"}, EPOCH, frozenset({"a"}))
    with tarfile.open(fileobj=io.BytesIO((tmp_path / name).read_bytes())) as archive:
        entries = [(each.name, each.size, each.mtime, each.mode, each.uid) for each in archive]
    assert entries == [("a", 1, EPOCH, 0o755, 0), ("b", 1, EPOCH, 0o644, 0)]
