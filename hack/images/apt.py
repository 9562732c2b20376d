"""Runs apt-get inside a root file system with this machine's mirror and settings, which stay out of it."""

from __future__ import annotations

from pathlib import Path

from hack.images import apt_sources
from hack.images.chroot import run_inside
from hack.images.recipes import MADE, SUITE

FOLDER = "/mnt"
"""Where the programs of a root file system find the folder that `apt_get` is given."""


def apt_get(root: Path, folder: Path, *commands: list[str], settings: str = "") -> None:
    """Runs `apt-get update` and then the commands of apt-get inside `root`.

    Args:
        folder: an empty folder, which is `FOLDER` inside.
        commands: each is the words behind `apt-get`.
        settings: lines of apt's configuration, which go before those of this machine.
    """
    options = ["-q", "-y", "-o", "APT::Install-Recommends=false"]
    (folder / "apt.conf").write_text(settings + apt_sources.acquire_options(), encoding="utf-8")
    if mirror := apt_sources.mirror():
        (folder / "sources.list").write_text(f"deb {mirror} {SUITE} main\n", encoding="utf-8")
        options += ["-o", f"Dir::Etc::sourcelist={FOLDER}/sources.list"]
    environment = {"APT_CONFIG": f"{FOLDER}/apt.conf", "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], *commands):
        run_inside(
            root,
            ["apt-get", *options, *words],
            {folder: FOLDER},
            {**environment, "SOURCE_DATE_EPOCH": str(MADE)},
        )
