"""`python -m hack.release`: see the README beside this file."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from hack.cluster.progress import ClusterError
from hack.images.chroot import ImageError
from hack.images.targets import REGISTRY
from hack.release.build import build_release, sign_release
from hack.release.distributions import ROOT
from hack.release.failure import ReleaseError
from hack.release.publish import publish
from hack.release.version import epoch, raise_version


def main() -> int:
    """Parses the command line and runs the command; returns the exit status."""
    arguments = _parser().parse_args()
    try:
        if arguments.command == "version":
            print("\n".join(raise_version(arguments.version)))
        elif arguments.command == "build":
            os.environ.setdefault(
                "LANEWAY_IMAGE_ENGINE", "buildah"
            )  # Docker's archives hold the present time
            seconds = int(os.environ.setdefault("SOURCE_DATE_EPOCH", str(epoch())))
            build_release(arguments.folder, arguments.version, seconds, arguments.key)
            print(arguments.folder)
        elif arguments.command == "sign":
            sign_release(arguments.folder, arguments.key, epoch())
        else:
            pushed = publish(
                arguments.folder, arguments.registry, arguments.version, insecure=arguments.insecure
            )
            print("\n".join(f"{reference}@{digest}" for reference, digest in pushed.items()))
    except (ReleaseError, ImageError, ClusterError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hack.release", description="Builds and publishes a release."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    version = commands.add_parser(
        "version", help="write a new version everywhere in the tree; prints the changed files"
    )
    build = commands.add_parser(
        "build", help="build the release of the tree's version into a folder, which it prints"
    )
    build.add_argument(
        "--key", type=Path, help="a private key in PEM, which signs checksums, images and chart"
    )
    signing = commands.add_parser("sign", help="sign a release that was built without a key")
    signing.add_argument("--key", type=Path, required=True, help="a private key in PEM")
    push = commands.add_parser(
        "publish",
        help="push images, chart and their signatures to a registry; prints them with their digests",
    )
    push.add_argument("--registry", default=REGISTRY, help="its host, and a path if it has one (%(default)s)")
    push.add_argument("--insecure", action="store_true", help="over HTTP")
    for command in (build, signing, push):
        command.add_argument("--folder", type=Path, default=ROOT / "dist", help="of the release (dist)")
    for command in (version, build, push):
        command.add_argument("version", help="three numbers: 0.2.0")
    return parser


if __name__ == "__main__":
    sys.exit(main())
