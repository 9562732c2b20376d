"""Saving and finding generations, together with the other ranks where there are any."""

from __future__ import annotations

import json
import logging
import secrets
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.board import gather
from laneway.client.checkpoint.errors import CheckpointError
from laneway.client.checkpoint.folder import Folder, Generation
from laneway.client.checkpoint.part_file import read_part, write_part

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.board import Board

log = logging.getLogger("laneway.client")

MEET_SECONDS: Final = 1800.0
"""How long a rank waits for the others to come to `resume()`, as long as torch.distributed does by default."""


class Found:
    """What a rank goes on from."""

    def __init__(self, generation: Generation, shared: Any, own: Any, same_ranks: bool) -> None:
        self.generation = generation
        self.shared = shared
        """What is the same on all ranks."""
        self.own = own
        """This rank's; rank 0's where the job has another number of ranks now."""
        self.same_ranks = same_ranks


class Store:
    """The folder, seen by one rank."""

    def __init__(self, torch: Any, path: str, keep: int, board: Optional[Board], name: str) -> None:
        """Agrees with the other ranks on the name of this run.

        Args:
            torch: the module.
            path: the folder; all ranks see the same.
            keep: how many whole generations to keep.
            board: the ranks' notes; None for a process on its own.
            name: tells this checkpoint from others of the same ranks.
        """
        self._torch = torch
        self._board = board
        self._name = name
        self._keep = keep
        self.rank = board.rank if board else 0
        self.world_size = board.world_size if board else 1
        self._folder = Folder(path)
        self._folder.drop_partial(self.rank)
        self._run = self._meet("run", secrets.token_hex(4))[0]
        self._last: Optional[Generation] = None

    def save(self, number: int, shared: Any, own: Any) -> None:
        """Writes this rank's file of a generation.

        Raises:
            OSError: it could not be written; the generation will not be whole.
        """
        generation = Generation(number, self._run, self.world_size)
        payload = {"shared": shared if self.rank == 0 else None, "own": own}
        write_part(
            self._folder.file(generation, self.rank),
            self._folder.manifest(generation, self.rank),
            lambda file: self._torch.save(payload, file),
        )
        if self.rank == 0:
            self._look_after(generation)

    def find(self, misfit: Callable[[Any], Optional[str]]) -> Optional[Found]:
        """The newest generation that is whole and fits, on every rank; None where there is none at all.

        Args:
            misfit: why the shared part is not this job's, None when it is.

        Raises:
            CheckpointError: there are checkpoints, and none that every rank can use.
        """
        seen = [json.loads(text) for text in self._meet("whole", json.dumps(self._folder.whole()))]
        everywhere = [Generation(*entry) for entry in seen[0] if all(entry in others for others in seen)]
        refusals = []
        for attempt, generation in enumerate(everywhere):
            found, reason = self._try(generation, misfit)
            reasons = [text for text in self._meet(f"try/{attempt}", reason) if text]
            if found is not None and not reasons:
                self._settle(generation)
                return found
            refusals.append(f"checkpoint {generation.number}: {reasons[0]}")
            log.warning("%s; the one before is used", refusals[-1])
        if not any(seen):
            return None
        raise CheckpointError(
            f"no checkpoint in {self._folder.path} can be used; to begin anew, empty the folder or name another. "
            + (
                "; ".join(refusals)
                or "The ranks do not see the same files: the folder must be one that all of them share"
            )
        )

    def _try(
        self, generation: Generation, misfit: Callable[[Any], Optional[str]]
    ) -> tuple[Optional[Found], str]:
        try:
            first = self._read(generation, 0)
            same_ranks = generation.world_size == self.world_size
            own = self._read(generation, self.rank) if same_ranks and self.rank else first
        except CheckpointError as error:
            return None, str(error)
        reason = misfit(first["shared"])
        if reason is not None:
            return None, f"it is of another job: {reason}"
        return Found(generation, first["shared"], own["own"], same_ranks), ""

    def _read(self, generation: Generation, rank: int) -> Any:
        def load(file: Any) -> Any:
            return self._torch.load(file, map_location="cpu", weights_only=True)

        return read_part(self._folder.file(generation, rank), self._folder.manifest(generation, rank), load)

    def _settle(self, generation: Generation) -> None:
        """All go on from that one."""
        self._last = generation
        if self.rank == 0:
            self._folder.drop_newer(generation)
            self._folder.keep(self._keep)

    def _look_after(self, generation: Generation) -> None:
        """Makes room, and says so where the others' files of the last generation did not come."""
        whole = self._folder.whole()
        if self._last is not None and self._last not in whole:
            log.warning(
                "checkpoint %d in %s is not whole: not every rank's file is there, so it cannot be used. All ranks must share that folder",
                self._last.number,
                self._folder.path,
            )
        self._last = generation
        self._folder.keep(self._keep)

    def _meet(self, topic: str, text: str) -> list[str]:
        if self._board is None:
            return [text]
        try:
            return gather(self._board, f"{self._name}/{topic}", text, MEET_SECONDS)
        except TimeoutError as error:
            raise CheckpointError(f"{error}: every rank has to call resume()") from error
