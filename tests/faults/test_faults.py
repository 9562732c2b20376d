"""Whatever is done to the operator and to what it sees: the cluster ends where it should, and no invariant breaks on the way."""

from __future__ import annotations

import pytest

from tests.faults.cell import Grounds
from tests.faults.kinds import KINDS
from tests.faults.sweep import asked_for, report, sweep, undisturbed


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_fault(grounds: Grounds, kind: str) -> None:
    if asked_for(kind) == []:
        pytest.skip("CELLS asks for other faults")
    outcomes = await sweep(grounds, kind, await undisturbed(grounds))
    print(f"{kind}: {len(outcomes)} cells, {sum(outcome.fired for outcome in outcomes.values())} disturbed")
    assert any(outcome.fired for outcome in outcomes.values()), "the fault never did anything"
    if problems := report(kind, outcomes):
        pytest.fail(problems, pytrace=False)
