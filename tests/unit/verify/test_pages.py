"""Pages are short where a newcomer begins. Pictures are small, readable on a dark page, and described in words."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[3]
_IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
_SVG = "{http://www.w3.org/2000/svg}"


def tracked(pattern: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    return [ROOT / name for name in listed]


@pytest.mark.parametrize("picture", tracked("docs/*.svg"), ids=lambda picture: picture.name)
def test_a_drawn_picture_is_small_described_and_readable_on_dark(picture: Path) -> None:
    text = picture.read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    parts = {name: root.findtext(f"{_SVG}{name}", "") for name in ("title", "desc", "style")}
    assert root.get("role") == "img"
    assert parts["title"]
    assert len(parts["desc"]) > 80
    assert "prefers-color-scheme: dark" in parts["style"]
    assert len(text) < 8000


def test_every_image_of_a_page_says_in_words_what_it_shows() -> None:
    images = [
        (page, words, target)
        for page in tracked("*.md")
        for words, target in _IMAGE.findall(page.read_text(encoding="utf-8"))
    ]
    assert [f"{page.name}: {target}" for page, words, target in images if len(words.split()) < 8] == []
    assert images


@pytest.mark.parametrize("page", tracked("docs/concepts/*.md"), ids=lambda page: page.name)
def test_a_concept_takes_three_minutes_to_read(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").split()) < 600


def test_the_readme_fits_on_two_screens() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 95
