"""The check of imports between tests finds what breaks its rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.verify.failure import CheckFailedError
from hack.verify.test_imports import check_test_imports


def folder_of_tests(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root / "tests"


@pytest.mark.parametrize(
    ("story", "importing", "text"),
    [
        ("a name of a test module", "unit/test_a.py", "from tests.unit.test_b import helper"),
        ("a test module as a name", "unit/test_a.py", "from tests.unit import test_b"),
        ("a test module with its dotted name", "unit/test_a.py", "import tests.unit.test_b"),
        ("an import inside a function", "unit/a.py", "def f():\n    from tests.unit.test_b import helper"),
        ("another kind's helper", "e2e/a.py", "from tests.unit.builders import job"),
        ("support that depends on a kind", "support/a.py", "from tests.unit.builders import job"),
        ("a benchmark outside unit tests", "e2e/test_a.py", "from tests.performance.page import table"),
    ],
)
def test_a_wrong_import_is_named_with_its_line(tmp_path: Path, story: str, importing: str, text: str) -> None:
    files = {"unit/test_b.py": "", "unit/builders.py": "", "performance/page.py": "", importing: text}
    tests = folder_of_tests(tmp_path, files)
    with pytest.raises(CheckFailedError, match=f"{importing}:{len(text.splitlines())}: tests"):
        list(check_test_imports(tests))


@pytest.mark.parametrize(
    ("story", "importing", "text"),
    [
        ("its own kind's helper", "unit/test_a.py", "from tests.unit.builders import job"),
        ("what is shared", "e2e/test_a.py", "from tests.support.waiting import until"),
        ("a benchmark's unit test", "unit/test_a.py", "from tests.performance.page import table"),
        ("a helper that is called like a test", "unit/a.py", "from tests.unit.builders import test_value"),
        ("a library", "unit/test_a.py", "import json"),
    ],
)
def test_a_right_import_passes(tmp_path: Path, story: str, importing: str, text: str) -> None:
    tests = folder_of_tests(tmp_path, {"unit/builders.py": "", importing: text})
    assert list(check_test_imports(tests))
