"""The tightest packing of a GPU: lanes of tenants that span GPUs stay, all others share the largest of them."""

from __future__ import annotations

import pytest
from laneway.lanes.assignment import Bounds, tightest
from laneway.lanes.tenant import Tenant

from tests.unit.core.lanes.builders import EXACT, known

Case = tuple[dict[int, tuple[Tenant, ...]], int, dict[int, str] | None]

A, B, C = known("a", 1, 4), known("b", 1, 6), known("c", 1, 6)
GANG, WIDE_GANG = known("g", 1, 3, spans=True), known("w", 1, 8, spans=True)

CASES: dict[str, Case] = {
    "nobody": ({}, 10, {}),
    "one lane": ({3: (A,)}, 5, {3: "a"}),
    "one lane that does not fit": ({3: (A,)}, 4, None),
    "all join the largest lane, which keeps its number": ({1: (A,), 4: (B,)}, 8, {4: "ab"}),
    "of equal lanes, the one with the lowest number": ({5: (B,), 2: (C,)}, 8, {2: "bc"}),
    "one byte too few": ({1: (A,), 4: (B,)}, 7, None),
    "a spanning tenant's lane takes the others, though theirs is larger": (
        {1: (B,), 2: (GANG,)},
        8,
        {2: "bg"},
    ),
    "each spanning tenant keeps its lane, the largest takes the others": (
        {1: (GANG, A), 2: (WIDE_GANG,), 3: (B,)},
        15,
        {1: "g", 2: "abw"},
    ),
    "spanning tenants alone": ({1: (GANG,), 2: (WIDE_GANG,)}, 13, {1: "g", 2: "w"}),
}


@pytest.mark.parametrize(("lanes", "capacity", "want"), CASES.values(), ids=CASES)
def test_the_tightest_packing(
    lanes: dict[int, tuple[Tenant, ...]], capacity: int, want: dict[int, str] | None
) -> None:
    packed = tightest(lanes, Bounds(capacity, EXACT))
    shown = packed and {number: "".join(sorted(t.key for t in tenants)) for number, tenants in packed.items()}
    assert (None if packed is None else shown) == want
