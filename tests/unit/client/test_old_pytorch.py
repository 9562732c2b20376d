"""A PyTorch without the hooks that turns need."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
from laneway.client.pytorch.hooks import install


def test_the_log_names_an_old_version_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("torch", "torch.optim", "torch.optim.optimizer"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    install(SimpleNamespace(__version__="1.13.1"))
    (record,) = caplog.records
    assert "PyTorch 1.13.1 has no hooks" in record.message
    assert "use PyTorch 2.0 or newer" in record.message
