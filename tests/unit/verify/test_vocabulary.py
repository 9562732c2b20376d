"""The check of words finds removed expressions as names and in text, and warns about long commit subjects."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hack.verify.vocabulary import LONGEST_SUBJECT, Vocabulary, long_subjects, vocabulary

WORDS = Vocabulary(
    names={"[Dd]ockets?": "JobCache"}, words={"anew": "again", "ma(?:ke|kes|de) way": "is preempted"}
)


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("a.py", "docket = 1\n", ["a.py:1: 'docket': JobCache"]),
        ("a.py", "class Docket:\n    pass\n", ["a.py:1: 'Docket': JobCache"]),
        ("a.py", "x = 1  # on the docket\n", []),
        ("a.py", "# It begins anew.\n", ["a.py:1: 'anew': again"]),
        ("a.md", "docket\n\nA job made way.\n", ["a.md:3: 'made way': is preempted"]),
        ("a.yaml", "text: Anew\n", ["a.yaml:1: 'Anew': again"]),
        ("a.md", "a renewed docketing\n", []),
    ],
)
def test_findings(path: str, text: str, found: list[str]) -> None:
    assert list(WORDS.findings(Path(path), text)) == found


@pytest.mark.parametrize("section", ["removed", "pending"])
def test_expressions_of_the_table_have_no_groups_of_their_own(section: str) -> None:
    """A group would shift the replacements."""
    words = vocabulary(section)
    assert [text for text in (*words.names, *words.words) if re.compile(text).groups] == []


def test_a_long_subject_is_named_with_its_commit() -> None:
    long = "x" * (LONGEST_SUBJECT + 1)
    warnings = list(long_subjects({"1234": "Short", "abcd": long}))
    assert len(warnings) == 1
    assert "abcd has 73 characters" in warnings[0]
