"""The site of the documentation has every page, picture and linked file, and its navigation finds pages by a star."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hack.docs.__main__ import expand, site_files


def test_the_site_has_pages_pictures_and_the_files_that_pages_link_to(tmp_path: Path) -> None:
    page = "[a](../src/a.py) ![b](b.svg) [gone](gone.py) [web](https://example.com/c.py)\n\n```\n[d](../src/d.py)\n```\n"
    files = {
        "docs/page.md": page,
        "docs/b.svg": "<svg/>",
        "src/a.py": "",
        "src/d.py": "",
        ".gitignore": "old.md\n",
    }
    for name, text in {**files, "old.md": ""}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    assert site_files(tmp_path) == {"docs/page.md", "docs/b.svg", "src/a.py"}


def test_an_entry_with_a_star_stands_for_the_pages_that_match_it() -> None:
    nav = ["README.md", {"Operate": ["docs/install/*.md", {"Limits": "docs/limits.md"}, "docs/none*.md"]}]
    pages = ["docs/install/k3s.md", "docs/install/eks.md", "docs/limits.md"]
    assert expand(nav, pages) == [
        "README.md",
        {"Operate": ["docs/install/eks.md", "docs/install/k3s.md", {"Limits": "docs/limits.md"}]},
    ]
