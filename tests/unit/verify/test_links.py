"""Relative links in Markdown lead to files of the repository, and their anchors to headings."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
_DIRECTION = re.compile(r"\[(above|below)\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def pages() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    return [ROOT / name for name in listed]


def anchors(page: Path) -> set[str]:
    """GitHub's anchors: lower case, punctuation removed, a hyphen for each space."""
    headings = _HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_to_files_and_headings() -> None:
    broken = []
    for page in pages():
        for target, anchor in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
            linked = (page.parent / target).resolve() if target else page
            if not linked.exists() or (anchor and linked.suffix == ".md" and anchor not in anchors(linked)):
                broken.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert broken == []


def test_above_and_below_are_on_the_same_page() -> None:
    elsewhere = [
        f"{page.relative_to(ROOT)}: [{word}]({target})"
        for page in pages()
        for word, target in _DIRECTION.findall(page.read_text(encoding="utf-8"))
        if not target.startswith("#")
    ]
    assert elsewhere == []


def test_the_tour_visits_ten_files() -> None:
    tour = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    assert len(set(re.findall(r"\]\(([^)]+\.py)\)", tour))) == 10
