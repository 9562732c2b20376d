"""Where the version is written, and what is refused before a release."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hack.images.targets import version as chart_version
from hack.release import version
from hack.release.build import build_release
from hack.release.failure import ReleaseError
from hack.release.version import ROOT, check_version, raised


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("core/pyproject.toml", 'version = "70.1.0"', 'version = "70.2.0"'),
        ("cli/pyproject.toml", 'dependencies = ["laneway-core==70.1.0"]', 'dependencies = ["laneway-core==70.2.0"]'),
        ("operator/pyproject.toml", '"laneway-core[optimization]==70.1.0"', '"laneway-core[optimization]==70.2.0"'),
        ("cli/pyproject.toml", '"someone-elses==70.1.0"', '"someone-elses==70.1.0"'),
        ("charts/laneway/Chart.yaml", 'version: 70.1.0\nappVersion: "70.1.0"', 'version: 70.2.0\nappVersion: "70.2.0"'),
        ("examples/long.yaml", "image: ghcr.io/laneway/examples:70.1.0", "image: ghcr.io/laneway/examples:70.2.0"),
        ("docs/page.md", "laneway/client:70.1.0-rc1 laneway/client:70.1.0.1", "laneway/client:70.1.0-rc1 laneway/client:70.1.0.1"),
        ("docs/page.md", "version 70.1.0 of another", "version 70.1.0 of another"),
        ("CHANGELOG.md", "# Changes\n\n## Unreleased\n\n## 70.1.0\n", "# Changes\n\n## 70.2.0\n\n## 70.1.0\n"),
    ],
)  # fmt: skip
def test_a_version_is_raised_where_it_is_ours(name: str, before: str, after: str) -> None:
    assert raised(name, before, "70.1.0", "70.2.0") == after


def test_the_tree_is_a_release_of_its_version() -> None:
    check_version(chart_version())


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("", "write three numbers"),
        ("v1.0.0", "write three numbers"),
        ("1.0.0-rc.1", "write three numbers"),
        ("99.0.0", r"run `python -m hack\.release version 99\.0\.0` and commit the result"),
    ],
)
def test_another_version_is_refused(asked: str, message: str) -> None:
    with pytest.raises(ReleaseError, match=message):
        check_version(asked)


def test_a_version_without_an_entry_in_the_change_log_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version, "CHANGELOG", tmp_path / "CHANGELOG.md")
    version.CHANGELOG.write_text("# Changes\n\n## Unreleased\n", encoding="utf-8")
    with pytest.raises(ReleaseError, match=r"has no heading '## \d"):
        check_version(chart_version())


def test_a_raised_tree_has_the_old_version_nowhere_that_counts() -> None:
    old = chart_version()
    names = ["laneway-", "laneway/operator:", "laneway/client:", "laneway/examples:", "version"]
    found = subprocess.run(
        ["git", "grep", "-nIF", old, "--", "*.toml", "*.yaml", "Dockerfile", "tests/e2e", "tests/performance/*.py"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    left = []
    for line in found:
        name, _, text = line.split(":", 2)
        if any(word in text for word in names) and old in raised(name, text, old, "99.0.0"):
            left.append(line)
    assert left == []


def test_a_folder_that_is_no_release_is_kept(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("", encoding="utf-8")
    with pytest.raises(ReleaseError, match="exists and is no release"):
        build_release(tmp_path, chart_version(), 0, None)
    assert (tmp_path / "mine").exists()
