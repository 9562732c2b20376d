"""Whatever is done to the operator and to what it sees: the cluster ends where it should, and no invariant breaks on the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.cell import Grounds
from tests.faults.kinds import KINDS
from tests.faults.sweep import asked_for, report, sweep


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_fault(grounds: Grounds, kind: str) -> None:
    if asked_for(kind) == []:
        pytest.skip("CELLS asks for other faults")
    outcomes = await sweep(grounds, kind)
    print(f"{kind}: {len(outcomes)} cells, {sum(outcome.fired for outcome in outcomes.values())} disturbed")
    assert any(outcome.fired for outcome in outcomes.values()), "the fault never did anything"
    if problems := report(kind, outcomes):
        pytest.fail(problems, pytrace=False)


@pytest.mark.parametrize("kind", KINDS)
def test_every_fault_is_documented_with_its_seeds(kind: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text()
    (row,) = (line for line in page.splitlines() if line.startswith("|") and f"`{kind}:" in line)
    if "-write" in kind and os.environ.get("KILLS_APART"):
        pytest.skip("KILLS_APART asks for other seeds")
    seeds = "every n" if kind.endswith("kill-after-write") else str(KINDS[kind].seeds)
    assert f"| {seeds} |" in row
