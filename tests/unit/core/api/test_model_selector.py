"""``gpus.models``: names and patterns."""

from __future__ import annotations

import pytest
from laneway.api.model_selector import selects


@pytest.mark.parametrize(
    ("models", "model", "want"),
    [
        ((), "NVIDIA T4", True),
        (("NVIDIA T4",), "NVIDIA T4", True),
        (("NVIDIA T",), "NVIDIA T4", False),
        (("NVIDIA A100*",), "NVIDIA A100-SXM4-80GB", True),
        (("NVIDIA A100*",), "NVIDIA A10", False),
        (("*80GB*",), "NVIDIA H100 80GB HBM3", True),
        (("*80GB",), "NVIDIA H100 80GB HBM3", False),
        (("*100*80*",), "NVIDIA A100-SXM4-80GB", True),
        (("*80*100*",), "NVIDIA A100-SXM4-80GB", False),
        (("A*A",), "A", False),
        (("*",), "", True),
        (("T4", "NVIDIA L4*"), "NVIDIA L40S", True),
        (("a.c",), "abc", False),
    ],
)
def test_a_selector_accepts_names_and_patterns(models: tuple[str, ...], model: str, want: bool) -> None:
    assert selects(models, model) is want
