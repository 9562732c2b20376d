"""Waits for the import of PyTorch, then installs Laneway's hooks. Until then this is the only module of the
client in memory.

A finder at the head of `sys.meta_path` lets the other finders find `torch` and adds a call after that
module's execution. It stays until PyTorch is really imported, because libraries look for `torch`
(`importlib.util.find_spec`) without importing it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing typing takes milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Optional


def prepare(install: Callable[[ModuleType], None]) -> Optional[AfterImport]:
    """Calls `install(torch)` once PyTorch has been imported, or now if it already is.

    Only the first call in a process has an effect. A failure of `install` is reported on stderr and does not
    reach the script.

    Returns:
        The finder that waits for the import; None if this call had no effect, or PyTorch is imported.
    """
    global _prepared  # noqa: PLW0603 - PyTorch is one module, and gets its hooks once
    if _prepared:
        return None
    _prepared = True

    def install_safely(torch: ModuleType) -> None:
        try:
            install(torch)
        except Exception as error:
            print(
                f"laneway: cannot install the PyTorch hooks, the script runs without turns: {error!r}",
                file=sys.stderr,
            )

    if "torch" in sys.modules:
        install_safely(sys.modules["torch"])
        return None
    finder = AfterImport("torch", install_safely)
    sys.meta_path.insert(0, finder)
    return finder


class AfterImport:
    """A finder that calls `then(module)` once the module `name` has been executed."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """Returns the other finders' spec for `name`, with `then` called after its execution; None for other
        modules."""
        if fullname != self._name:
            return None
        finders = list(sys.meta_path)
        # Finders before this one were asked already, and may be of this class.
        for finder in finders[finders.index(self) + 1 if self in finders else 0 :]:
            if not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                self._extend(spec.loader)
                return spec
        return None

    def _extend(self, loader: Any) -> None:
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def execute_and_follow(module: ModuleType) -> None:
            # Restore the loader: importlib.resources, inspect and pickle look at it.
            del loader.exec_module
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            self._then(module)

        try:
            loader.exec_module = execute_and_follow
        except AttributeError:
            return


_prepared = False
