"""`python -m hack.images`: see the README beside this file."""

from __future__ import annotations

import argparse
import sys

from hack.images.recipes import RECIPES
from hack.images.rootfs import RootfsError, root_file_system


def main() -> int:
    """Parses the command line and runs the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m hack.images", description="Builds Laneway's container images.")
    commands = parser.add_subparsers(dest="command", required=True)
    rootfs = commands.add_parser("rootfs", help="print the folder of an unpacked root file system, made if it is not there")
    rootfs.add_argument("name", choices=sorted(RECIPES))
    arguments = parser.parse_args()
    try:
        print(root_file_system(arguments.name))
    except RootfsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
