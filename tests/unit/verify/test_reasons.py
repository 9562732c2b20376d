"""Each word that a status, an event or a node's log gives as a reason is explained in a page for users, by its exact text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import pytest
from laneway.operator.lifecycle.gang import DisruptionReason
from laneway.operator.lifecycle.refusals import RefusalReason
from laneway.scheduling.model.held_rescale import HoldReason
from laneway.scheduling.model.plan import PreemptionReason, WaitingCode

ROOT = Path(__file__).parents[3]
_WORD = r"[A-Z]\w+"
_JOBS = ("docs/jobs.md", "docs/elastic.md", "docs/operate/troubleshoot.md")
_NODES = ("docs/operate/troubleshoot.md", "node_agent/README.md")


def explained(*pages: str) -> set[str]:
    """Returns the words that these pages write as code."""
    text = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in pages)
    return set(re.findall(rf"`({_WORD})`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)))


def in_sources(component: str, *patterns: str) -> Iterator[str]:
    """Yields the words of a component's sources in which these patterns' groups match."""
    for path in sorted((ROOT / component / "src").rglob("*.py")):
        for pattern in patterns:
            yield from re.findall(pattern, path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "reasons", [WaitingCode, PreemptionReason, HoldReason, DisruptionReason, RefusalReason]
)
def test_reasons_of_a_job_are_explained(reasons: type[StrEnum]) -> None:
    assert {str(reason) for reason in reasons} - explained(*_JOBS) == set()


def test_events_and_other_reasons_of_a_job_are_explained() -> None:
    words = set(
        in_sources(
            "operator",
            rf'JobEvent\(\s*"({_WORD})"',
            rf'transitions\.(?:refused|unplaced|failed|restarted)\([^"()]*"({_WORD})"',
        )
    )
    assert {"Rollback", "NotUnderstood", "PlacementLost", "DeadlineExceeded"} <= words
    assert words - explained(*_JOBS) == set()


def test_reasons_of_a_node_and_its_containers_are_explained() -> None:
    words = set(
        in_sources(
            "node_agent",
            rf'not_ready\("({_WORD})"',
            rf'reason="({_WORD})" if ',
            rf'record_event\(\s*[\w.]+,\s*"({_WORD})"',
        )
    )
    assert {"NoGPUs", "OtherDevicePlugin", "TurnRevoked"} <= words
    assert words - explained(*_NODES) == set()
