"""The order in which parallel processes take files: with xdist's ``--dist loadfile --no-loadscope-reorder``, that of collection."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest


def put_first(items: list[pytest.Item], folder: Path, files: Sequence[str]) -> None:
    """Move the tests of these files of a folder to the front, in this order, so that no long file begins when others have ended."""
    places = {folder / name: place for place, name in enumerate(files)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
