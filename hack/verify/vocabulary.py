"""Fails on names and words that Laneway no longer uses, and warns about long commit subjects.

`vocabulary.yaml` holds the table: `names` are compared with the names in Python sources, `words` with the text of Python, Markdown and YAML.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hack.verify.failure import CheckFailedError

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("vocabulary.yaml")
LONGEST_SUBJECT = 72
"""Characters of a commit's subject."""

_EXEMPT = (TABLE, ROOT / "tests" / "unit" / "verify" / "test_vocabulary.py")
_COMMITS_WITHOUT_ORIGIN = 20


@dataclass(frozen=True)
class Vocabulary:
    """Removed expressions and their replacements. `names` are regular expressions for whole Python names, `words` for text in any case."""

    names: Mapping[str, str]
    words: Mapping[str, str]

    def findings(self, path: Path, text: str) -> Iterator[str]:
        """Yields one line for each removed expression in a file's text."""
        if self.words:
            pattern = _alternatives(self.words, re.IGNORECASE)
            for number, line in enumerate(text.splitlines(), start=1):
                for found in pattern.finditer(line):
                    replacement = _replacement(self.words, found[0], re.IGNORECASE)
                    yield f"{path}:{number}: {found[0]!r}: {replacement}"
        if self.names and path.suffix == ".py":
            pattern = _alternatives(self.names)
            if not pattern.search(text):
                return
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type == tokenize.NAME and (name := pattern.fullmatch(token.string)):
                    yield f"{path}:{token.start[0]}: {name[0]!r}: {_replacement(self.names, name[0])}"


def _alternatives(expressions: Mapping[str, str], flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Any of the expressions. A group for each would cost a hundred times as much: each would be tried at each letter."""
    return re.compile(rf"\b(?:{'|'.join(expressions)})\b", flags)


def _replacement(expressions: Mapping[str, str], found: str, flags: re.RegexFlag = re.NOFLAG) -> str:
    return next(text for expression, text in expressions.items() if re.fullmatch(expression, found, flags))


def vocabulary(section: str = "removed") -> Vocabulary:
    """Returns the section `removed` or `pending` of the table."""
    table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))[section]
    return Vocabulary(table.get("names") or {}, table.get("words") or {})


def check_vocabulary() -> Iterator[str]:
    """Checks all tracked Python, Markdown and YAML files; yields a summary, and a warning for each long commit subject.

    Raises:
        CheckFailedError: a file contains a removed expression; the message names all places.
    """
    removed = vocabulary()
    files = _files()
    findings = [finding for path in files for finding in _findings(removed, path)]
    if findings:
        raise CheckFailedError("removed words (hack/verify/vocabulary.yaml):\n" + "\n".join(findings))
    yield f"vocabulary: {len(files)} files"
    yield from long_subjects(_subjects())


def long_subjects(subjects: Mapping[str, str]) -> Iterator[str]:
    """Yields a warning for each subject that is too long, by commit."""
    for commit, subject in subjects.items():
        if len(subject) > LONGEST_SUBJECT:
            yield f"warning: the subject of {commit} has {len(subject)} characters, at most {LONGEST_SUBJECT} are wanted: {subject}"


def _findings(words: Vocabulary, path: Path) -> Iterator[str]:
    yield from words.findings(path.relative_to(ROOT), path.read_text(encoding="utf-8"))


def _files() -> list[Path]:
    names = _git("ls-files", "-z", "*.py", "*.md", "*.gotmpl", "*.yaml", "*.yml", "*.toml").split("\0")
    paths = (ROOT / name for name in names if name)
    return [path for path in paths if path.is_file() and path not in _EXEMPT]


def _subjects() -> dict[str, str]:
    """Returns the subjects of the commits that origin/main lacks; without origin/main, of the last ones."""
    known = _git("for-each-ref", "refs/remotes/origin/main").strip()
    commits = ["origin/main..HEAD"] if known else [f"--max-count={_COMMITS_WITHOUT_ORIGIN}"]
    lines = _git("log", "--no-merges", "--format=%h %s", *commits).splitlines()
    return dict(line.split(" ", 1) for line in lines)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def enable() -> int:
    """Moves the pending expressions without a place to `removed`; returns how many."""
    sections: dict[str, Any] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    texts = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in _files()}
    moved = 0
    for kind in ("names", "words"):
        for expression, replacement in list((sections["pending"][kind] or {}).items()):
            alone = Vocabulary(**{"names": {}, "words": {}, kind: {expression: replacement}})
            if not any(finding for path, text in texts.items() for finding in alone.findings(path, text)):
                sections["removed"][kind][expression] = sections["pending"][kind].pop(expression)
                moved += 1
    comment = "".join(
        line for line in TABLE.read_text(encoding="utf-8").splitlines(keepends=True) if line.startswith("#")
    )
    table = yaml.safe_dump(sections, sort_keys=False, width=200, default_style='"')
    TABLE.write_text(f"{comment}\n{table}", encoding="utf-8")
    return moved


def main() -> None:
    """Prints the places of the pending expressions, or enables those without a place."""
    parser = argparse.ArgumentParser(prog="python -m hack.verify.vocabulary", description=main.__doc__)
    parser.add_argument(
        "--enable", action="store_true", help="move pending expressions without a place to `removed`"
    )
    if parser.parse_args().enable:
        print(f"enabled: {enable()}")
        return
    pending = vocabulary("pending")
    for path in _files():
        for finding in _findings(pending, path):
            print(finding)


if __name__ == "__main__":
    main()
