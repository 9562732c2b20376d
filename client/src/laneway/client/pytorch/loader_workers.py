"""Gives DataLoaders workers where the script leaves their number at its default of none, if the user asks for it.

Without workers a script prepares each batch between two iterations, while its GPU is idle. `LANEWAY_LOADER_WORKERS`
gives it some without a change of the script. It is off unless set, because workers change which random numbers
transformations get, and need shared memory.
"""

from __future__ import annotations

import functools
import logging
import multiprocessing
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from laneway.client.pytorch.cpu_threads import cpu_limit, training_processes

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger("laneway.client")

VARIABLE: Final = "LANEWAY_LOADER_WORKERS"
AUTO: Final = "auto"
SHARED_MEMORY: Final = "/dev/shm"
LEAST_SHARED_BYTES: Final = 256 * 1024 * 1024
"""Workers pass batches through it. A container without more than its runtime's default of 64 MiB would crash."""

_POSITION: Final = 5
"""Of `num_workers` among the arguments of `DataLoader`, the data set being the first."""


def give_workers(variables: Mapping[str, str] = os.environ, folder: str = SHARED_MEMORY) -> None:
    """Lets each further DataLoader without a number of workers have some, as far as the user asks for it.

    Args:
        variables: the environment.
        folder: where shared memory is.
    """
    text = variables.get(VARIABLE, "")
    if not text or not variables.get("LANEWAY_DIR"):
        return
    workers = _number(text, variables)
    if workers is None:
        log.warning("%s is %r: write a number of workers, or %s", VARIABLE, text, AUTO)
        return
    problem = _problem(folder)
    if problem:
        log.warning("DataLoaders get no workers by %s: %s", VARIABLE, problem)
        return
    if workers:
        data = import_module("torch.utils.data")
        _wrap(data.DataLoader, data.IterableDataset, workers)


def _number(text: str, variables: Mapping[str, str]) -> Any:
    """Returns the number of workers; None where the text is none."""
    if text.isdigit():
        return int(text)
    if text != AUTO:
        return None
    cpus = cpu_limit() or len(os.sched_getaffinity(0))
    return max(0, int(cpus) // training_processes(variables) - 1)  # one is the training's own


def _problem(folder: str) -> str:
    if multiprocessing.get_all_start_methods()[0] != "fork":
        return "processes are not forked on this Python, so a data set may not reach them"
    try:
        shared = os.statvfs(folder)
    except OSError as error:
        return f"there is no shared memory: {error}"
    if shared.f_blocks * shared.f_frsize < LEAST_SHARED_BYTES:
        return f"{folder} has less than {LEAST_SHARED_BYTES >> 20} MiB: mount an emptyDir with medium Memory there"
    return ""


def _wrap(loader: Any, iterable: Any, workers: int) -> None:
    init = loader.__init__

    @functools.wraps(init)
    def with_workers(self: Any, dataset: Any, *arguments: Any, **named: Any) -> None:
        # The workers of an iterable data set would all read the same.
        left = len(arguments) < _POSITION and "num_workers" not in named
        if left and not isinstance(dataset, iterable):
            named["num_workers"] = workers
        init(self, dataset, *arguments, **named)

    loader.__init__ = with_workers
