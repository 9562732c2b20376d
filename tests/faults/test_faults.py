"""Whatever is done to the operator and to what it sees: the cluster ends where it should, and no invariant breaks on the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.cell import Grounds
from tests.faults.kinds import KINDS
from tests.faults.sweep import asked_for, report, sweep

GROUPS = {kind: (kind,) for kind, each in KINDS.items() if each.seeds > 1} | {
    "one-seed-each": tuple(kind for kind, each in KINDS.items() if each.seeds == 1)
}
"""Kinds that are played at the same time."""


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


@pytest.mark.parametrize("kind", KINDS)
def test_every_fault_is_documented_with_its_seeds(kind: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text()
    (row,) = (line for line in page.splitlines() if line.startswith("|") and f"`{kind}:" in line)
    if "-write" in kind and os.environ.get("KILLS_APART"):
        pytest.skip("KILLS_APART asks for other seeds")
    seeds = "every n" if kind.endswith("kill-after-write") else str(KINDS[kind].seeds)
    assert f"| {seeds} |" in row
