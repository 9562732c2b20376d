"""Faults between the operator and the API server: the cluster reaches the undisturbed end, and every invariant holds on the way."""

from __future__ import annotations

import pytest

from tests.faults.cell import Grounds
from tests.faults.kinds import KINDS
from tests.faults.sweep import asked_for, report, sweep

_PLAYED_ONCE = [kind for kind, each in KINDS.items() if each.seeds == 1]
GROUPS = {kind: (kind,) for kind, each in KINDS.items() if each.seeds > 1} | {
    f"one-seed-each-{first // 4 + 1}": tuple(_PLAYED_ONCE[first : first + 4])
    for first in range(0, len(_PLAYED_ONCE), 4)
}
"""Kinds that are played at the same time, in groups that parallel processes share."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("group", GROUPS)
async def test_a_fault(grounds: Grounds, group: str) -> None:
    kinds = [kind for kind in GROUPS[group] if asked_for(kind) != []]
    if not kinds:
        pytest.skip("CELLS asks for other faults")
    swept = await sweep(grounds, kinds)
    for kind, outcomes in swept.items():
        print(
            f"{kind}: {len(outcomes)} cells, {sum(outcome.fired for outcome in outcomes.values())} disturbed"
        )
        assert any(outcome.fired for outcome in outcomes.values()), f"{kind} never did anything"
    if problems := "\n".join(filter(None, (report(kind, outcomes) for kind, outcomes in swept.items()))):
        pytest.fail(problems, pytrace=False)
