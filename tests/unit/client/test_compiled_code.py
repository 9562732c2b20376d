"""Entry and exit of compiled code are observed through the compiler's lists, where this version has them."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
from laneway.client.torch_internals.compiled_code import COMPILER, EXPORTER, has_compiled, watch_compiled_code


class Context:
    """Like PyTorch's: the functions to call on entry and exit of each compiled object."""

    def __init__(self, callback: object, first: list[str] | None = None) -> None:
        self.callback = callback
        self.enter_exit_hooks = [] if first is None else [*first]


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A compiler that has been imported."""
    module = ModuleType(COMPILER)
    monkeypatch.setitem(sys.modules, COMPILER, module)
    return module


def test_our_function_comes_last_for_everything_compiled_from_then_on(
    compiler: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "_TorchDynamoContext", type("Context", (Context,), {}), raising=False)
    used: list[str] = []
    watch_compiled_code(enter := lambda: print, lambda: used.append("used"))
    disabled = compiler._TorchDynamoContext(None, first=[])
    assert disabled.enter_exit_hooks == [enter]
    assert not used, "PyTorch's own optimizers mark what is not to be compiled"
    context = compiler._TorchDynamoContext("callback", first=["theirs"])
    assert context.enter_exit_hooks == ["theirs", enter]
    assert context.callback == "callback"
    assert used


@pytest.mark.parametrize("context", [None, SimpleNamespace, type("Without", (), {})])
def test_a_compiler_without_such_a_list_is_unchanged(compiler: ModuleType, context: type | None) -> None:
    compiler._TorchDynamoContext = context  # type: ignore[attr-defined]
    used: list[str] = []
    watch_compiled_code(lambda: print, lambda: used.append("used"))
    if context is not None:
        assert not hasattr(context(), "enter_exit_hooks")
    assert used or isinstance(context, type), "where use cannot be seen it is taken for granted"


def test_exporting_counts_as_use(compiler: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_TorchDynamoContext", type("Context", (Context,), {}), raising=False)
    monkeypatch.setitem(sys.modules, EXPORTER, ModuleType(EXPORTER))
    used: list[str] = []
    watch_compiled_code(lambda: print, lambda: used.append("used"))
    assert used


@pytest.mark.parametrize(
    ("backends", "expected"),
    [
        pytest.param(None, False, id="a version without a record"),
        pytest.param({}, False, id="nothing yet"),
        pytest.param({1: None, 2: False}, False, id="only functions that are not to be compiled"),
        pytest.param({1: None, 2: print}, True, id="compiled"),
    ],
)
def test_has_compiled_tells_whether_a_backend_was_used(
    compiler: ModuleType, backends: dict[int, object] | None, expected: bool
) -> None:
    if backends is not None:
        compiler.cached_backends = backends  # type: ignore[attr-defined]
    assert has_compiled() is expected


def test_without_the_compiler_nothing_has_compiled() -> None:
    assert COMPILER not in sys.modules
    assert not has_compiled()
