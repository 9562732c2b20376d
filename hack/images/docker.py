"""Builds the Dockerfile's targets with Docker or Podman, on the base images that the Dockerfile names."""

from __future__ import annotations

import os
from pathlib import Path

from hack.images.architectures import host
from hack.images.chroot import ImageError, run, succeeds
from hack.images.targets import ROOT, Target

PIP_CONFIGURATIONS = (
    Path.home() / ".config/pip/pip.conf",
    Path.home() / ".pip/pip.conf",
    Path("/etc/pip.conf"),
)


class Docker:
    """An `Engine` over `docker` or `podman`; the commands used here are the same in both."""

    def __init__(self, program: str) -> None:
        self.name = program
        if not self.is_there(program):
            raise ImageError(
                f"{program} does not answer ('{program} info' fails): start it, or choose another with LANEWAY_IMAGE_ENGINE"
            )

    @staticmethod
    def is_there(program: str) -> bool:
        """Returns whether the program is installed and can build (Docker: its engine responds)."""
        return succeeds([program, "info"])

    def circumstances(self, target: Target, architecture: str) -> str:
        """Returns the inputs of an image that are not files of the tree."""
        return " ".join([self.name, target.base, *([architecture] if architecture != host() else [])])

    def build(self, target: Target, architecture: str, archive: Path) -> None:
        """Builds one target and writes it as an archive that `kind load image-archive` and `ctr images import` read."""
        command = [self.name, "build", f"--target={target.name}", f"--tag={target.reference}"]
        command.append(f"--platform=linux/{architecture}")
        configuration = next((path for path in PIP_CONFIGURATIONS if path.is_file()), None)
        if configuration is not None:
            command.append(f"--secret=id=pip,src={configuration}")
        # The Dockerfile mounts secrets, which Docker's old builder does not know.
        run([*command, str(ROOT)], {**os.environ, "DOCKER_BUILDKIT": "1"}, isolated=False)
        # Docker's own format holds an OCI index since Docker 25; Podman writes one when asked.
        form = ["--format=oci-archive"] if self.name == "podman" else []
        run([self.name, "save", *form, f"--output={archive}", target.reference], isolated=False)
