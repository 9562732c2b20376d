"""The modules that lie on this machine alone: neither Python's own nor installed by a package manager."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

_INSTALLED = {"site-packages", "dist-packages"}
_IN_EVERY_WORKER = "laneway"


def local_modules(imported: Iterable[str]) -> dict[str, Path]:
    """Return where the local ones of imported modules are, by the name of the top package. Nothing is imported."""
    tops = {module.partition(".")[0] for module in imported} - sys.stdlib_module_names - {_IN_EVERY_WORKER}
    places = {top: _place(top) for top in sorted(tops)}
    return {top: place for top, place in places.items() if place is not None and not _is_installed(place)}


def is_package(folder: Path) -> bool:
    """Return whether a script beside a folder imports it by its name.

    Without ``__init__.py`` it is a namespace package, before which Python takes a module of that name: one beside it, its own or an installed one.
    """
    if (folder / "__init__.py").is_file():
        return True
    if folder.with_name(f"{folder.name}.py").is_file() or not any(
        module.is_file() for depth in ("*.py", "*/*.py") for module in folder.glob(depth)
    ):
        return False
    place = _place(folder.name)
    return folder.name not in sys.stdlib_module_names and (place is None or not _is_installed(place))


def _is_installed(place: Path) -> bool:
    return bool(_INSTALLED & set(place.parts))


def _place(module: str) -> Path | None:
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):  # ValueError: such as __main__, it was made and not found
        return None
    if spec is None:
        return None
    if spec.submodule_search_locations is not None:
        return next(map(Path, spec.submodule_search_locations), None)
    return Path(spec.origin) if spec.has_location and spec.origin else None
