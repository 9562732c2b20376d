"""Saves and finds generations, together with the other ranks if there are any."""

from __future__ import annotations

import json
import logging
import secrets
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.checkpoint.checkpoint_file import read_checkpoint_file, write_checkpoint_file
from laneway.client.checkpoint.errors import CheckpointError
from laneway.client.checkpoint.folder import CheckpointFolder, Generation
from laneway.client.checkpoint.sharded import damaged_file
from laneway.client.distributed.rank_store import all_gather

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.checkpoint.sharded import ShardedParts
    from laneway.client.distributed.rank_store import RankStore

log = logging.getLogger("laneway.client")

RESUME_TIMEOUT_SECONDS: Final = 1800.0
"""How long a rank waits for the others to call `resume()`, as long as torch.distributed does by default."""


class LoadedCheckpoint:
    """The checkpoint that a rank resumes from."""

    def __init__(
        self, generation: Generation, shared: Any, rank_state: Any, same_ranks: bool, folder: str
    ) -> None:
        self.generation = generation
        self.shared = shared
        """The state that is the same on all ranks."""
        self.rank_state = rank_state
        """This rank's state. Where the job has another number of ranks now, the values are rank 0's, and a new
        rank gets another rank's state."""
        self.same_ranks = same_ranks
        self.sharded_folder = folder
        """Where the parameters are that were divided among the ranks."""


class CheckpointStore:
    """The folder as seen by one rank."""

    def __init__(
        self,
        torch: Any,
        path: str,
        keep: int,
        rank_store: Optional[RankStore],
        name: str,
        sharded: Optional[ShardedParts] = None,
    ) -> None:
        """Agrees with the other ranks on a name for this run.

        Args:
            torch: the module `torch`.
            path: the folder, shared by all ranks.
            keep: how many complete generations to keep.
            rank_store: the store shared by the ranks; None for a single process.
            name: distinguishes this checkpoint from others of the same ranks.
            sharded: the parts that are divided among the ranks.
        """
        self._torch = torch
        self._rank_store = rank_store
        self._name = name
        self._keep = keep
        self._sharded = sharded
        self.rank = rank_store.rank if rank_store else 0
        self.world_size = rank_store.world_size if rank_store else 1
        self._folder = CheckpointFolder(path)
        self._folder.drop_partial(self.rank, self.world_size)
        self._run = self._all_gather("run", secrets.token_hex(4))[0]
        self._last: Optional[Generation] = None

    def save(self, number: int, shared: Any, own: Any) -> None:
        """Writes this rank's file of a generation.

        Raises:
            OSError: it could not be written; the generation will stay incomplete.
        """
        generation = Generation(number, self._run, self.world_size)
        payload = {"shared": shared if self.rank == 0 else None, "own": own}
        if self._sharded is not None:
            payload["sharded"] = self._sharded.save(self._folder.sharded(generation), self.rank)
        write_checkpoint_file(
            self._folder.file(generation, self.rank),
            self._folder.manifest(generation, self.rank),
            lambda file: self._torch.save(payload, file),
        )
        if self.rank == 0:
            self._clean_up(generation)

    def find(self, mismatch: Callable[[Any], Optional[str]]) -> Optional[LoadedCheckpoint]:
        """Returns the newest generation that is complete and fits on every rank; None where there is none at
        all.

        Args:
            mismatch: returns why the shared part does not belong to this job, None if it does.

        Raises:
            CheckpointError: there are checkpoints, but none that every rank can use.
        """
        seen = [json.loads(text) for text in self._all_gather("whole", json.dumps(self._folder.complete()))]
        everywhere = [Generation(*entry) for entry in seen[0] if all(entry in others for others in seen)]
        refusals = []
        for attempt, generation in enumerate(everywhere):
            found, reason = self._try(generation, mismatch)
            reasons = [text for text in self._all_gather(f"try/{attempt}", reason) if text]
            if found is not None and not reasons:
                self._adopt(generation)
                return found
            refusals.append(f"checkpoint {generation.number}: {reasons[0]}")
            log.warning("%s; trying the one before", refusals[-1])
        if not any(seen):
            return None
        raise CheckpointError(
            f"no checkpoint in {self._folder.path} can be used; to start over, empty the folder or choose another. "
            + (
                "; ".join(refusals)
                or "The ranks do not see the same files: the folder must be shared by all of them"
            )
        )

    def _try(
        self, generation: Generation, mismatch: Callable[[Any], Optional[str]]
    ) -> tuple[Optional[LoadedCheckpoint], str]:
        ranks, folder = generation.world_size, self._folder.sharded(generation)
        try:
            first = self._read(generation, 0)
            own = self._read(generation, self.rank % ranks) if self.rank % ranks else first
            damage = self._sharded_damage(generation) if "sharded" in first else None
        except CheckpointError as error:
            return None, str(error)
        reason = mismatch(first["shared"])
        if reason is None and ("sharded" in first or self._sharded is not None):
            parts = first.get("sharded", {"parts": {}})["parts"]
            reason = (
                self._sharded.mismatch(parts)
                if self._sharded
                else "its model is sharded over the ranks (FSDP), and the script has none such"
            )
        if reason is not None:
            return None, f"it belongs to another job: {reason}"
        if damage is not None:
            return None, damage
        if ranks == self.world_size:
            return LoadedCheckpoint(generation, first["shared"], own["own"], True, folder), ""
        state = {**own["own"], "values": first["own"]["values"]}
        return LoadedCheckpoint(generation, first["shared"], state, False, folder), ""

    def _sharded_damage(self, generation: Generation) -> Optional[str]:
        """Verifies this rank's part of the divided parameters' files; returns what is wrong."""
        for rank in range(self.rank, generation.world_size, self.world_size):
            files = self._read(generation, rank)["sharded"]["files"]
            damage = damaged_file(self._folder.sharded(generation), files)
            if damage is not None:
                return damage
        return None

    def _read(self, generation: Generation, rank: int) -> Any:
        def load(file: Any) -> Any:
            return self._torch.load(file, map_location="cpu", weights_only=True)

        return read_checkpoint_file(
            self._folder.file(generation, rank), self._folder.manifest(generation, rank), load
        )

    def _adopt(self, generation: Generation) -> None:
        """Continues from a generation on all ranks."""
        self._last = generation
        if self.rank == 0:
            self._folder.drop_newer(generation)
            self._folder.keep(self._keep)

    def _clean_up(self, generation: Generation) -> None:
        """Deletes old generations, and warns if other ranks' files of the last one are missing."""
        complete = self._folder.complete()
        if self._last is not None and self._last not in complete:
            log.warning(
                "checkpoint %d in %s is incomplete and cannot be used: files of other ranks are missing. All ranks must share the folder",
                self._last.number,
                self._folder.path,
            )
        self._last = generation
        self._folder.keep(self._keep)

    def equal_on_all_ranks(self, texts: dict[str, str]) -> set[str]:
        """Returns the keys whose texts are the same on all ranks. To be called once, by all of them."""
        gathered = [json.loads(text) for text in self._all_gather("equal", json.dumps(texts))]
        return {key for key in texts if all(others.get(key) == texts[key] for others in gathered)}

    def _all_gather(self, topic: str, text: str) -> list[str]:
        if self._rank_store is None:
            return [text]
        try:
            return all_gather(self._rank_store, f"{self._name}/{topic}", text, RESUME_TIMEOUT_SECONDS)
        except TimeoutError as error:
            raise CheckpointError(f"{error}: every rank has to call resume()") from error
