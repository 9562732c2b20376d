"""The arguments of ``torchrun`` that say where its processes are: Laneway sets them by variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_PLACE = frozenset(
    {
        *("nnodes", "nproc-per-node", "node-rank", "master-addr", "master-port"),
        *("rdzv-endpoint", "rdzv-backend", "rdzv-id", "rdzv-conf", "local-addr"),
    }
)
_PLACE_FLAGS = frozenset({"standalone"})
_FLAGS = frozenset({"m", "module", "no-python", "run-path"})
"""Options without a value; all others have one."""


@dataclass(frozen=True)
class Torchrun:
    """A command line of ``torchrun`` without the options that Laneway sets."""

    command: list[str]
    removed: dict[str, str]
    """The options that were taken out, by their names without dashes, and their values."""

    @property
    def nodes(self) -> tuple[int, int] | None:
        """The fewest and the most nodes that it starts on; None where it does not say."""
        fewest, _, most = self.removed.get("nnodes", "").partition(":")
        return (int(fewest), int(most or fewest)) if fewest.isdigit() and (most or fewest).isdigit() else None

    @property
    def processes(self) -> int | None:
        """Processes of each node; None where it does not say, or counts GPUs."""
        text = self.removed.get("nproc-per-node", "")
        return int(text) if text.isdigit() else None


def parse_torchrun(command: Sequence[str]) -> Torchrun | None:
    """Return a command line without its place; None where it is not torchrun's."""
    start = _length_of_launcher(command)
    if start is None:
        return None
    kept, removed, place = list(command[:start]), {}, start
    while place < len(command) and command[place].startswith("-"):
        word = command[place]
        name, equals, value = word.lstrip("-").replace("_", "-").partition("=")
        value = word.partition("=")[2]
        length = 1 if equals or name in _FLAGS | _PLACE_FLAGS else 2
        if name in _PLACE | _PLACE_FLAGS:
            removed[name] = value if equals else " ".join(command[place + 1 : place + length])
        else:
            kept += command[place : place + length]
        place += length
    return Torchrun([*kept, *command[place:]], removed)


def _length_of_launcher(command: Sequence[str]) -> int | None:
    if command and command[0].rpartition("/")[2] == "torchrun":
        return 1
    modules = ("torch.distributed.run", "torch.distributed.launch")
    if (
        "-m" in command
        and command[command.index("-m") + 1 :][:1]
        and command[command.index("-m") + 1] in modules
    ):
        return list(command).index("-m") + 2
    return None
