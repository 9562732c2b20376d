"""Waits for PyTorch to be imported, and then installs Laneway's hooks in it; until then this module is all that is loaded.

A finder at the head of `sys.meta_path` lets the others find `torch` and puts one more call behind the execution of that module.
It stays there until PyTorch was really imported: libraries look for `torch` (`importlib.util.find_spec`) without importing it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing itself takes milliseconds to import
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Optional


def prepare() -> None:
    """Sees to it that PyTorch gets its hooks when it is imported, or now if it is there already; once, however often it is called."""
    if "torch" in sys.modules:
        _install(sys.modules["torch"])
    elif not any(isinstance(finder, AfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, AfterImport("torch", _install))


class AfterImport:
    """A finder that calls `then(module)` once the module `name` has been executed."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """Finds nothing itself: for `name`, returns what the other finders find, with one more call behind its execution."""
        if fullname != self._name:
            return None
        finders = list(sys.meta_path)
        # Those before this one were asked already, and may be of its kind.
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
            # The loader is left as it was found: importlib.resources, inspect and pickle look at it.
            del loader.exec_module
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            self._then(module)

        try:
            loader.exec_module = execute_and_follow
        except AttributeError:
            return


_installed = False


def _install(torch: ModuleType) -> None:
    global _installed  # noqa: PLW0603 - PyTorch is one module, and gets its hooks once
    if _installed:
        return
    _installed = True
    try:
        from laneway.client.torch_hooks import install

        install(torch)
    except Exception as error:
        print(f"laneway: the script runs without turns: {error!r}", file=sys.stderr)
