"""The folder of a job's checkpoints: which generations there are, which of them are whole, and which may go.

A generation is what all ranks of one life of the job saved at one boundary, a file for each rank:

    000000012000-3f9a1c02.0-of-2.checkpoint      generation (the boundary), run, rank, number of ranks
    000000012000-3f9a1c02.1-of-2.checkpoint

A file gets its name when all of it is on the disk, so a generation is whole when all its names are there. What happens to a file later
(a disk's error, a hand's) is found when it is read.
"""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple

from laneway.client.checkpoint.part_file import PARTIAL_SUFFIX, Manifest, flush_folder

NAME: Final = re.compile(r"(\d{12})-([0-9a-f]{8})\.(\d+)-of-(\d+)\.checkpoint")


class Generation(NamedTuple):
    """One state of the job; the order is that of age, within a run."""

    number: int
    run: str
    world_size: int


class Folder:
    """The files of one job; nothing else may be in need of its names there."""

    def __init__(self, path: str) -> None:
        """Makes the folder if it is not there.

        Raises:
            OSError: it cannot be made.
        """
        self.path = os.path.abspath(path)
        os.makedirs(self.path, exist_ok=True)

    def file(self, generation: Generation, rank: int) -> str:
        """The path of one rank's file."""
        name = f"{generation.number:012d}-{generation.run}.{rank}-of-{generation.world_size}.checkpoint"
        return os.path.join(self.path, name)

    def manifest(self, generation: Generation, rank: int) -> Manifest:
        """What that file must say of itself."""
        return Manifest(generation.run, generation.number, rank, generation.world_size)

    def whole(self) -> list[Generation]:
        """The generations of which all files are there, newest first."""
        ranks = self._ranks()
        return sorted(
            (found for found in ranks if ranks[found] >= set(range(found.world_size))), reverse=True
        )

    def keep(self, count: int) -> None:
        """Deletes what is older than the `count` newest whole generations; a newer one that is not whole yet stays."""
        whole = self.whole()
        if not whole:
            return
        oldest = whole[:count][-1]
        ranks = self._ranks()
        for generation in ranks:
            if generation < oldest:
                for rank in ranks[generation]:
                    _delete(self.file(generation, rank))

    def drop_newer(self, than: Generation) -> None:
        """Deletes generations beyond the one that the job goes on from: it will make them anew, in another run."""
        ranks = self._ranks()
        for generation in ranks:
            if generation > than:
                for rank in ranks[generation]:
                    _delete(self.file(generation, rank))
        flush_folder(self.path)

    def drop_partial(self, rank: int) -> None:
        """Deletes what a rank was writing when its last life ended."""
        for name in os.listdir(self.path):
            match = NAME.fullmatch(name[: -len(PARTIAL_SUFFIX)]) if name.endswith(PARTIAL_SUFFIX) else None
            if match and int(match[3]) == rank:
                _delete(os.path.join(self.path, name))

    def _ranks(self) -> dict[Generation, set[int]]:
        ranks: dict[Generation, set[int]] = {}
        for name in os.listdir(self.path):
            match = NAME.fullmatch(name)
            if match:
                generation = Generation(int(match[1]), match[2], int(match[4]))
                ranks.setdefault(generation, set()).add(int(match[3]))
        return ranks


def _delete(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return  # another rank was faster
