"""Imports between test modules: shared code lives in `tests/support`, and no kind of tests depends on another kind.

The rules are:

1. Nothing imports a test module (`test_*.py`): a helper that two modules need has a module of its own.
2. A kind of tests (`tests/unit`, `tests/e2e`, …) imports from itself and from `tests.support` only.
3. `tests.support` imports from itself only.

Unit tests also import `tests.performance` and `tests.gpu`, because benchmarks and their tools have unit tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from hack.verify.failure import CheckFailedError

SUPPORT = "support"
_TESTED_BY_UNIT_TESTS = {"performance", "gpu"}


def check_test_imports(tests: Path = Path("tests")) -> Iterator[str]:
    """Checks every module of the folder `tests`; yields a line about what was checked.

    Raises:
        CheckFailedError: an import breaks a rule; the message names all such imports.
    """
    modules = sorted(tests.rglob("*.py"))
    wrong = [line for module in modules for line in _wrong_imports(module, tests)]
    if wrong:
        raise CheckFailedError("imports between tests:\n" + "\n".join(wrong))
    yield f"imports between tests: {len(modules)} modules"


def _wrong_imports(module: Path, tests: Path) -> Iterator[str]:
    importing = module.relative_to(tests).parts[0]
    for line, name in _imported_names(ast.parse(module.read_text(encoding="utf-8"))):
        parts = name.split(".")
        if parts[0] != tests.name or len(parts) == 1:
            continue
        if any(
            part.startswith("test_") and (tests.parent / f"{_path(parts, part)}.py").exists()
            for part in parts
        ):
            yield f"{module}:{line}: {name} is in a test module; move what is shared to a module of its own"
        elif not _allowed(importing, parts[1]):
            yield f"{module}:{line}: {name}: tests/{importing} may import tests/{importing} and tests/support"


def _path(parts: list[str], last: str) -> str:
    return "/".join(parts[: parts.index(last) + 1])


def _allowed(importing: str, imported: str) -> bool:
    if imported in (importing, SUPPORT):
        return True
    return importing == "unit" and imported in _TESTED_BY_UNIT_TESTS


def _imported_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that is imported anywhere in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
