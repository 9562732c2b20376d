"""`python -m hack.docs`: builds the site of the documentation from the repository's Markdown; fails on every warning.

The site has the repository's layout, so a link works on it as it does on GitHub.
"""

from __future__ import annotations

import argparse
import fnmatch
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
CONFIGURATION = Path(__file__).with_name("mkdocs.yml")
STYLES = Path(__file__).with_name("site.css")

_PAGES = ("*.md", "*.svg")
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINKED_FILE = re.compile(r"\]\((?!\w+:)([^)#\s]+)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Builds the site; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m hack.docs", description=__doc__)
    parser.add_argument(
        "--site", type=Path, help="folder for the site; without it, the pages are only checked"
    )
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    with TemporaryDirectory() as folder:
        site = Path(folder, "site")
        built = _build(Path(folder, "pages"), site)
        if built and options.site:
            shutil.rmtree(options.site, ignore_errors=True)
            shutil.move(site, options.site)
            print(options.site / "index.html")
            print(f"with search: python3 -m http.server --bind 127.0.0.1 --directory {options.site}")
    return 0 if built else 1


def site_files(repository: Path) -> set[str]:
    """Returns the files of the site: pages, pictures, and the files that pages link to."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *_PAGES],
        cwd=repository,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    files = {name for name in listed if (repository / name).is_file()}
    for name in sorted(files):
        if name.endswith(".md"):
            files.update(_linked_files(repository, name))
    return files


def _linked_files(repository: Path, page: str) -> Iterator[str]:
    text = _FENCED.sub("", (repository / page).read_text(encoding="utf-8"))
    for target in _LINKED_FILE.findall(text):
        name = os.path.normpath(os.path.join(os.path.dirname(page), target))
        if (repository / name).is_file():
            yield name


def expand(nav: Iterable[Any], pages: Iterable[str]) -> list[Any]:
    """Returns the navigation with each entry that has a star replaced by the matching pages, in alphabetical order."""
    expanded: list[Any] = []
    for entry in nav:
        if isinstance(entry, str):
            expanded += sorted(fnmatch.filter(pages, entry)) if "*" in entry else [entry]
        else:
            ((title, value),) = entry.items()
            expanded.append({title: expand(value, pages) if isinstance(value, list) else value})
    return expanded


def _build(pages: Path, site: Path) -> bool:
    """Copies the site's files and builds the site; returns whether there was no warning."""
    files = site_files(REPOSITORY)
    for name in files:
        copy = pages / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / name, copy)
    shutil.copyfile(STYLES, pages / STYLES.name)
    os.environ["DISABLE_MKDOCS_2_WARNING"] = (
        "true"  # of the theme, about a version of mkdocs that is not installed
    )
    from mkdocs.commands.build import (
        build,
    )  # after the environment is set, which the theme reads when it is imported
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort

    config = load_config(str(CONFIGURATION), docs_dir=str(pages), site_dir=str(site))
    config.nav = expand(config.nav or [], files)
    try:
        build(config)
    except Abort as error:
        print(f"error: {error}", file=sys.stderr)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
