"""`python -m hack.images`: see the README beside this file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from hack.images.architectures import MACHINES
from hack.images.build import build, copy_to
from hack.images.chroot import ImageError
from hack.images.recipes import RECIPES
from hack.images.rootfs import root_file_system
from hack.images.targets import TARGETS


def main() -> int:
    """Parses the command line and runs the command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m hack.images", description="Builds Laneway's container images."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    builder = commands.add_parser(
        "build", help="build images; prints reference, archive and content hash of each"
    )
    builder.add_argument(
        "--target",
        action="append",
        default=[],
        choices=list(TARGETS),
        metavar="NAME",
        help="only this one; repeatable",
    )
    builder.add_argument(
        "--architecture", default="", choices=list(MACHINES), help="another than this machine's"
    )
    builder.add_argument("--out", type=Path, metavar="DIR", help="also put the archives there, as NAME.tar")
    rootfs = commands.add_parser(
        "rootfs", help="print the folder of an unpacked root file system; create it if it does not exist"
    )
    rootfs.add_argument("name", choices=sorted(RECIPES))
    arguments = parser.parse_args()
    try:
        if arguments.command == "rootfs":
            print(root_file_system(arguments.name))
        else:
            _build(arguments.target, arguments.architecture, arguments.out)
    except ImageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _build(names: list[str], architecture: str, out: Path | None) -> None:
    images = build(names, architecture)
    for image in images:
        print(f"{image.reference}\t{image.archive}\t{image.content}")
    if out is not None:
        copy_to(out, images)


if __name__ == "__main__":
    sys.exit(main())
