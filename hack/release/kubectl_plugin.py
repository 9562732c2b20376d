"""`kubectl laneway` as an archive for each platform, and the manifest by which krew installs it.

An archive holds a launcher and the folder `lib` with the command line and all that it needs, compiled parts for each Python in `PYTHONS`.
It uses the python3 that it finds. Manifest: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
"""

from __future__ import annotations

import email
import filecmp
import hashlib
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from hack.release.archive import tree, write_tar
from hack.release.distributions import ROOT
from hack.release.failure import ReleaseError, run

PLATFORMS: Mapping[tuple[str, str], str] = {
    ("linux", "amd64"): "x86_64-manylinux_2_28",
    ("linux", "arm64"): "aarch64-manylinux_2_28",
    ("darwin", "amd64"): "x86_64-apple-darwin",
    ("darwin", "arm64"): "aarch64-apple-darwin",
}
"""uv's name for each of krew's."""

PYTHONS = ("3.11", "3.12", "3.13")
REQUIREMENTS = ROOT / "requirements" / "cli.txt"
RELEASES = "https://github.com/laneway/laneway/releases/download"

LAUNCHER = f"""\
#!/usr/bin/env python3
import os
import sys

if "%d.%d" % sys.version_info[:2] not in {PYTHONS!r}:
    sys.exit(
        "the plugin laneway needs Python {PYTHONS[0]} to {PYTHONS[-1]}, and python3 is %d.%d: put another first on the PATH,"
        " or install laneway-cli with pip" % sys.version_info[:2]
    )
sys.path.insert(1, os.path.join(os.path.dirname(os.path.realpath(__file__)), "lib"))
from laneway.cli.main import main

sys.exit(main())
"""


def build_plugin(folder: Path, wheels: Path, version: str, epoch: int) -> None:
    """Puts the archives and `laneway.yaml`, the manifest, into `folder`.

    Args:
        folder: must exist.
        wheels: with those of the command line and of the distributions that it needs.
        version: of the release, without a v.
        epoch: time of the files, in seconds since 1970.

    Raises:
        ReleaseError: a locked package has no wheel for a platform, or one of ours is missing.
    """
    own = dict(_own_files(wheels, "laneway-cli"))
    own |= {"kubectl-laneway": LAUNCHER.encode(), "LICENSE": (ROOT / "LICENSE").read_bytes()}
    archives = {}
    for (system, architecture), platform in PLATFORMS.items():
        archive = folder / f"kubectl-laneway_{system}_{architecture}.tar.gz"
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            files: dict[str, bytes | Path] = {**_third_party(Path(scratch), platform), **own}
            write_tar(archive, files, epoch, frozenset({"kubectl-laneway"}))
        archives[system, architecture] = archive
    (folder / "laneway.yaml").write_text(manifest(version, archives), encoding="utf-8")


def manifest(version: str, archives: Mapping[tuple[str, str], Path]) -> str:
    """Returns krew's manifest. `archives` has the file of each operating system and architecture."""
    platforms = [
        {
            "selector": {"matchLabels": {"os": system, "arch": architecture}},
            "uri": f"{RELEASES}/v{version}/{archive.name}",
            "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
            "bin": "kubectl-laneway",
        }
        for (system, architecture), archive in archives.items()
    ]
    spec = {
        "version": f"v{version}",
        "homepage": "https://github.com/laneway/laneway",
        "shortDescription": "Submit and explain jobs that share GPUs",
        "description": "Submits, lists, explains, pauses and deletes TrainingJobs of Laneway, which shares\n"
        "the GPUs of a cluster between deep-learning training jobs, and shows their logs.\n",
        "caveats": f"Needs Python {PYTHONS[0]} to {PYTHONS[-1]} as python3 on the PATH.\n",
        "platforms": platforms,
    }
    plugin = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "laneway"},
        "spec": spec,
    }
    return yaml.safe_dump(plugin, sort_keys=False)


def _third_party(scratch: Path, platform: str) -> dict[str, Path]:
    """The files of the locked packages for all Pythons."""
    files: dict[str, Path] = {}
    uv = Path(sys.executable).with_name("uv")
    options = ["--quiet", "--require-hashes", "--no-deps", "--only-binary=:all:", "--python", sys.executable]
    for python in PYTHONS:
        target = scratch / python
        of_python = ["--target", str(target), "--python-platform", platform, "--python-version", python]
        run([uv, "pip", "install", *options, *of_python, "--requirement", REQUIREMENTS])
        for name, file in tree(target, "lib/").items():
            # Programs of the packages, uv's lock, and hashes of files that are left out.
            if name.startswith(("lib/bin/", "lib/.")) or name.endswith(".dist-info/RECORD"):
                continue
            before = files.setdefault(name, file)
            if ".dist-info/" not in name and not filecmp.cmp(before, file, shallow=False):
                raise ReleaseError(
                    f"{name} differs between Pythons for {platform}: {REQUIREMENTS.name} may lock one version of a package only"
                )
    return files


def _own_files(wheels: Path, distribution: str) -> Iterator[tuple[str, bytes]]:
    """The files of one of our distributions and of those of ours that it needs."""
    found = list(wheels.glob(f"{distribution.replace('-', '_')}-*.whl"))
    if len(found) != 1:
        raise ReleaseError(f"{wheels} has {len(found)} wheels of {distribution}: one is needed")
    with zipfile.ZipFile(found[0]) as wheel:
        for name in wheel.namelist():
            if name.endswith(".dist-info/METADATA"):
                for needed in _needed(wheel.read(name)):
                    yield from _own_files(wheels, needed)
            yield f"lib/{name}", wheel.read(name)


def _needed(metadata: bytes) -> Iterator[str]:
    """Our distributions that a wheel needs without an extra."""
    for text in email.message_from_bytes(metadata).get_all("Requires-Dist", []):
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if name.startswith("laneway-") and (
            requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ):
            yield name
