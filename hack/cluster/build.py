"""Builds the cluster's programs from their pinned Go modules into the cache, once per version.

It can be interrupted and repeated at any point. A program is built under a temporary name and renamed when it is complete. Go's
build cache keeps the results of an interrupted build. A lock per module graph makes a second caller wait for the first one's result.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from hack.cluster.binaries import ORDINARY, Binary, binary
from hack.cluster.cache import cache_folder, exclusive
from hack.cluster.commands import die_with_parent
from hack.cluster.progress import ClusterError, report, step
from hack.cluster.toolchain import go_program

_HEARTBEAT_SECONDS = 30.0
_LOG_TAIL_LINES = 30


def built(name: str) -> Path:
    """Return the path of a program; build it first if the cache does not have it."""
    return ensure_built([name])[name]


def ensure_built(names: Iterable[str] = ORDINARY) -> dict[str, Path]:
    """Build the programs that the cache lacks; return the path of every named program."""
    wanted = [binary(name) for name in names]
    for workspace, members in groupby(sorted(wanted, key=_by_workspace), key=_by_workspace):
        group = list(members)
        if all(member.path.exists() for member in group):
            continue
        with exclusive(cache_folder() / "locks" / f"build-{workspace}.lock"):
            _remove_unfinished(workspace)
            missing = [member for member in group if not member.path.exists()]
            for recipe, alike in groupby(sorted(missing, key=_recipe), key=_recipe):
                _build(list(alike), *recipe)
    return {member.name: member.path for member in wanted}


def _by_workspace(member: Binary) -> str:
    return member.workspace


def _recipe(member: Binary) -> tuple[str, str]:
    return member.link_flags, member.tags


def _remove_unfinished(workspace: str) -> None:
    """Remove the remains of a killed build. Its lock is ours, so no other process uses them."""
    for folder in (cache_folder() / "bin").glob(f".building-{workspace}-*"):
        shutil.rmtree(folder)


def _build(members: list[Binary], link_flags: str, tags: str) -> None:
    """Build programs of one module graph that share their flags with one `go build`, which compiles in parallel."""
    go = go_program(members[0].module_folder / "go.mod")
    named = ", ".join(f"{member.name} {member.version}" for member in members)
    bin_folder = cache_folder() / "bin"
    log_file = cache_folder() / "logs" / f"build-{members[0].workspace}-{members[0].name}.log"
    for folder in (bin_folder, log_file.parent):
        folder.mkdir(parents=True, exist_ok=True)
    command = [str(go), "build", "-trimpath", "-ldflags", link_flags, "-tags", tags, "-o"]
    with (
        step(f"building {named}"),
        tempfile.TemporaryDirectory(prefix=f".building-{members[0].workspace}-", dir=bin_folder) as scratch,
    ):
        command += [f"{scratch}/", *(member.package for member in members)]
        _run_logged(command, members[0].module_folder, log_file)
        for member in members:
            _publish(Path(scratch) / _output_name(member), member.path)


def _output_name(member: Binary) -> str:
    """`go build` names a program after the last element of its package path that is not a major version."""
    elements = member.package.split("/")
    return elements[-2] if elements[-1] in ("v2", "v3") else elements[-1]


def _publish(program: Path, destination: Path) -> None:
    """Move a finished program to its place in one step: the folder appears with the complete file, or not at all."""
    staged = program.with_name(program.name + ".d")
    staged.mkdir()
    program.rename(staged / destination.name)
    shutil.rmtree(destination.parent, ignore_errors=True)
    staged.rename(destination.parent)


def _run_logged(command: list[str], folder: Path, log_file: Path) -> None:
    """Run Go without the caller's Go flags. Report progress, because a cold build prints nothing for minutes."""
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }
    started_at = time.monotonic()
    with log_file.open("w") as log:
        log.write(f"# in {folder}: {' '.join(command)}\n")
        log.flush()
        process = subprocess.Popen(
            [*die_with_parent(), *command], cwd=folder, env=environment, stdout=log, stderr=log
        )
        try:
            while True:
                try:
                    status = process.wait(timeout=_HEARTBEAT_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    report(f"  still building after {time.monotonic() - started_at:.0f} s (log: {log_file})")
        except BaseException:
            process.terminate()
            process.wait()
            raise
    if status != 0:
        tail = "\n".join(log_file.read_text().splitlines()[-_LOG_TAIL_LINES:])
        raise ClusterError(f"go build failed with status {status}; the end of {log_file}:\n{tail}")
