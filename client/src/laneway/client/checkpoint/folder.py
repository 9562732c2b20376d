"""The folder of a job's checkpoints: which generations exist, which are complete, and which may be deleted.

A generation is what all ranks of one run of the job saved at one boundary, one file for each rank:

    000000012000-3f9a1c02.0-of-2.checkpoint      generation (the boundary), run, rank, number of ranks
    000000012000-3f9a1c02.1-of-2.checkpoint
    000000012000-3f9a1c02.of-2.sharded/          parameters that are divided among the ranks, if there are any

A file gets its name once it is on disk, so a generation is complete when all its names exist. Later damage (a
disk error, manual changes) is detected when a file is read.
"""

from __future__ import annotations

import os
import re
import shutil
from typing import Final, NamedTuple

from laneway.client.checkpoint.checkpoint_file import PARTIAL_SUFFIX, Manifest, flush_folder

NAME: Final = re.compile(r"(\d{12})-([0-9a-f]{8})\.(\d+)-of-(\d+)\.checkpoint")
SHARDED: Final = re.compile(r"(\d{12})-([0-9a-f]{8})\.of-(\d+)\.sharded")


class Generation(NamedTuple):
    """One saved state of the job; within a run, generations sort by age."""

    number: int
    run: str
    world_size: int


class CheckpointFolder:
    """The files of one job, which must have the folder to itself."""

    def __init__(self, path: str) -> None:
        """Creates the folder if it does not exist.

        Raises:
            OSError: it cannot be created.
        """
        self.path = os.path.abspath(path)
        os.makedirs(self.path, exist_ok=True)

    def file(self, generation: Generation, rank: int) -> str:
        """Returns the path of one rank's file."""
        name = f"{generation.number:012d}-{generation.run}.{rank}-of-{generation.world_size}.checkpoint"
        return os.path.join(self.path, name)

    def sharded(self, generation: Generation) -> str:
        """Returns the path of the folder with the divided parameters."""
        name = f"{generation.number:012d}-{generation.run}.of-{generation.world_size}.sharded"
        return os.path.join(self.path, name)

    def manifest(self, generation: Generation, rank: int) -> Manifest:
        """Returns the manifest that this file must have."""
        return Manifest(generation.run, generation.number, rank, generation.world_size)

    def complete(self) -> list[Generation]:
        """Returns the generations with all files present, newest first."""
        ranks = self._ranks()
        return sorted(
            (found for found in ranks if ranks[found] >= set(range(found.world_size))), reverse=True
        )

    def keep(self, count: int) -> None:
        """Deletes everything older than the `count` newest complete generations. A newer incomplete one
        stays."""
        complete = self.complete()
        if not complete:
            return
        oldest = complete[:count][-1]
        ranks = self._ranks()
        for generation in ranks:
            if generation < oldest:
                self._delete(generation, ranks[generation])

    def drop_newer(self, than: Generation) -> None:
        """Deletes generations after the one that the job resumes from: it will save them again, in another
        run."""
        ranks = self._ranks()
        for generation in ranks:
            if generation > than:
                self._delete(generation, ranks[generation])
        flush_folder(self.path)

    def drop_partial(self, rank: int, ranks: int) -> None:
        """Deletes what a rank was writing when the last run ended. Ranks that are no more are divided among those of
        now."""
        for name in os.listdir(self.path):
            match = NAME.fullmatch(name[: -len(PARTIAL_SUFFIX)]) if name.endswith(PARTIAL_SUFFIX) else None
            if match and int(match[3]) % ranks == rank:
                _delete(os.path.join(self.path, name))

    def _ranks(self) -> dict[Generation, set[int]]:
        ranks: dict[Generation, set[int]] = {}
        for name in os.listdir(self.path):
            match = NAME.fullmatch(name)
            if match:
                generation = Generation(int(match[1]), match[2], int(match[4]))
                ranks.setdefault(generation, set()).add(int(match[3]))
            match = SHARDED.fullmatch(name)
            if match:
                ranks.setdefault(Generation(int(match[1]), match[2], int(match[3])), set())
        return ranks

    def _delete(self, generation: Generation, ranks: set[int]) -> None:
        """Deletes the files first: without them the folder counts for nothing."""
        for rank in ranks:
            _delete(self.file(generation, rank))
        shutil.rmtree(self.sharded(generation), ignore_errors=True)


def _delete(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return  # another rank has deleted it
