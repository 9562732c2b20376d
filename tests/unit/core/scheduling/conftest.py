"""What the tests of several stages share."""

from __future__ import annotations

from typing import Any

import pytest
import scipy.optimize


@pytest.fixture
def solver_options(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, float]]:
    """The options of each call of the integer solver."""
    options: list[dict[str, float]] = []
    solve = scipy.optimize.milp

    def recording(*args: Any, **named: Any) -> object:
        options.append(dict(named["options"]))  # the solver takes entries out
        return solve(*args, **named)

    monkeypatch.setattr("scipy.optimize.milp", recording)
    return options
