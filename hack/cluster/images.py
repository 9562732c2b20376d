"""Provides images to nodes without a registry: builds the pause image, and imports OCI archives into containerd."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hack.cluster.cache import cache_folder, exclusive
from hack.cluster.commands import run
from hack.cluster.progress import ClusterError, step

PAUSE_IMAGE = "localhost/laneway/pause:1"

# Sleeps forever, and reaps the children of a pod that shares one process namespace.
_PAUSE_SOURCE = r"""
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void finish(int number) { (void)number; _exit(0); }
static void reap(int number) { (void)number; while (waitpid(-1, 0, WNOHANG) > 0) {} }

int main(void) {
    signal(SIGINT, finish);
    signal(SIGTERM, finish);
    signal(SIGCHLD, reap);
    for (;;) pause();
}
"""
# The path of the dynamic linker stands right behind a program's headers (elf(5), PT_INTERP).
_ELF_HEADERS_BYTES = 4096
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class _Blob:
    media_type: str
    content: bytes

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def descriptor(self) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": f"sha256:{self.digest}", "size": len(self.content)}


def pause_archive() -> Path:
    """An OCI archive of the pause image, compiled on the first call."""
    recipe = hashlib.sha256((_PAUSE_SOURCE + PAUSE_IMAGE + platform.machine()).encode()).hexdigest()[:8]
    archive = cache_folder() / "images" / f"pause-{recipe}.tar"
    with exclusive(cache_folder() / "locks" / "pause-image.lock"):
        if archive.exists():
            return archive
        archive.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
            program = Path(scratch) / "pause"
            run(["gcc", "-Os", "-static", "-s", "-x", "c", "-o", program, "-"], stdin=_PAUSE_SOURCE)
            write_static_image(Path(scratch) / "archive.tar", PAUSE_IMAGE, program)
            (Path(scratch) / "archive.tar").rename(archive)
    return archive


def write_static_image(archive: Path, reference: str, program: Path, links: tuple[str, ...] = ()) -> None:
    """Write an OCI archive whose image holds one statically linked program, as its entry point.

    `links` are further absolute paths at which the image shows the program (a symbolic link each).
    """
    content = program.read_bytes()
    if b"/ld-" in content[:_ELF_HEADERS_BYTES]:
        raise ClusterError(
            f"{program} needs a dynamic linker and would not start in an image of its own: build or install a static one"
        )
    layer = _layer(program.name, content, links)
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Entrypoint": [f"/{program.name}"], "Env": ["PATH=/bin"], "User": "65535:65535"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    layer_blob = _Blob("application/vnd.oci.image.layer.v1.tar", layer)
    config_blob = _Blob("application/vnd.oci.image.config.v1+json", _json(config))
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config_blob.descriptor,
        "layers": [layer_blob.descriptor],
    }
    manifest_blob = _Blob("application/vnd.oci.image.manifest.v1+json", _json(manifest))
    named = {**manifest_blob.descriptor, "annotations": {"org.opencontainers.image.ref.name": reference}}
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(tar, "index.json", _json({"schemaVersion": 2, "manifests": [named]}))
        for blob in (layer_blob, config_blob, manifest_blob):
            _add(tar, f"blobs/sha256/{blob.digest}", blob.content)


def _layer(name: str, content: bytes, links: tuple[str, ...]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        _add(tar, name, content, mode=0o755)
        for link in links:
            entry = tarfile.TarInfo(link.lstrip("/"))
            entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, f"/{name}", 0o777
            tar.addfile(entry)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _json(document: object) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def archive_images(archive: Path) -> dict[str, str]:
    """Returns the digests of the images in an OCI archive, by reference."""
    try:
        with tarfile.open(archive) as tar:
            index = tar.extractfile("index.json")
            if index is None:
                raise KeyError("index.json")
            manifests = json.load(index)["manifests"]
    except (OSError, tarfile.TarError, KeyError, ValueError) as error:
        raise ClusterError(
            f"{archive} is not an OCI archive ({error}): write one with 'buildah push IMAGE oci-archive:FILE:REF'"
        ) from error
    images: dict[str, str] = {}
    for manifest in manifests:
        names = manifest.get("annotations", {})
        reference = names.get("io.containerd.image.name") or names.get(
            "org.opencontainers.image.ref.name", ""
        )
        if "/" not in reference:
            raise ClusterError(
                f"{archive} holds an image named {reference!r}, which no pod could name: "
                "write a full reference, as in 'oci-archive:FILE:localhost/laneway/operator:dev'"
            )
        images[reference] = manifest["digest"]
    return images


def import_archive(archive: Path, nodes: dict[str, list[str]]) -> None:
    """Import an OCI archive on nodes at the same time; `nodes` holds the command prefix of `ctr` on each, by name.

    A node that has every image of the archive with the same digest is left out.
    """
    images = archive_images(archive)
    lacking = {name: ctr for name, ctr in nodes.items() if not _has(ctr, images)}
    if not lacking:
        return
    with step(f"loading {', '.join(images)} on {', '.join(lacking)}"):
        running: dict[str, subprocess.Popen[str]] = {}
        for name, ctr in lacking.items():
            # The archive comes on standard input: its path may not be visible in the node's mount namespace.
            with archive.open("rb") as content:
                running[name] = subprocess.Popen(
                    [*ctr, "images", "import", "-"],
                    stdin=content,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
        outcomes = {name: (process.communicate()[0], process.returncode) for name, process in running.items()}
        failed = {name: output for name, (output, status) in outcomes.items() if status != 0}
        if failed:
            raise ClusterError(
                "\n".join(
                    f"{archive} could not be loaded on {name}: {output}" for name, output in failed.items()
                )
            )


def _has(ctr: list[str], images: dict[str, str]) -> bool:
    rows = (line.split() for line in run([*ctr, "images", "list"]).splitlines()[1:])
    present = {row[0]: row[2] for row in rows}
    return all(present.get(reference) == digest for reference, digest in images.items())
