"""Functions and scripts that are sent with a job."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from laneway.sdk import WrongArgumentError
from laneway.sdk.script import script_of_file, script_of_function

OUTSIDE = 3


def ran(function: Callable[..., Any], tmp_path: Path, **arguments: Any) -> str:
    """What the script of a function prints where nothing of this module is known."""
    script = script_of_function(function, arguments)
    path = tmp_path / script.name
    path.write_text(script.files[script.name], encoding="utf-8")
    return subprocess.run([sys.executable, path], check=True, capture_output=True, text=True).stdout


def test_a_function_runs_on_its_own(tmp_path: Path) -> None:
    def train(name: str, rates: list[float], *, deep: dict[str, int]) -> None:
        import os

        print(f"{os.path.basename('/a/b')} '{name}' \"$HOME\" {rates} {deep}")

    given: dict[str, Any] = {"name": "it's", "rates": [0.1, 2.0], "deep": {"a": 1}}
    assert ran(train, tmp_path, **given) == "b 'it's' \"$HOME\" [0.1, 2.0] {'a': 1}\n"


def test_a_function_that_calls_itself_runs(tmp_path: Path) -> None:
    assert ran(countdown, tmp_path, n=2) == "2\n1\n0\n"


def countdown(n: int) -> None:
    print(n)
    if n:
        countdown(n - 1)


def uses_a_module() -> Path:
    return Path("a")


def uses_a_constant() -> list[int]:
    return [OUTSIDE for _ in range(3)]


def test_what_a_function_uses_from_outside_is_named() -> None:
    rate = 0.1

    def uses_a_variable() -> float:
        return rate

    for function, name in ((uses_a_module, "Path"), (uses_a_constant, "OUTSIDE"), (uses_a_variable, "rate")):
        with pytest.raises(WrongArgumentError, match=f"uses {name} from outside of it"):
            script_of_function(function, None)


def test_what_its_definition_uses_from_outside_is_named() -> None:
    @marked
    def decorated() -> None:
        pass

    def with_default(rate: float = OUTSIDE) -> None:
        pass

    for function, name in ((decorated, "marked"), (with_default, "OUTSIDE")):
        with pytest.raises(WrongArgumentError, match=f"uses {name} from outside of it"):
            script_of_function(function, None)


def marked(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def test_texts_of_an_indented_function_keep_their_spaces(tmp_path: Path) -> None:
    def train() -> None:
        print("""
            a
b""")

    assert ran(train, tmp_path) == "\n            a\nb\n"


async def never_awaited() -> None:
    pass


def never_iterated() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize("function", [never_awaited, never_iterated])
def test_functions_whose_call_runs_nothing_are_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(WrongArgumentError, match="whose call trains nothing"):
        script_of_function(function, None)


@pytest.mark.parametrize("arguments", [{}, {"n": 1, "m": 2}, {"n=1) #": 1}])
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(WrongArgumentError, match="func_args do not fit countdown"):
        script_of_function(countdown, arguments)


@pytest.mark.parametrize("wrong", [lambda: 0, partial(print, "a"), print, "train"])
def test_only_functions_with_a_source_are_sent(wrong: Any) -> None:
    with pytest.raises(WrongArgumentError, match="give a function that is defined with def"):
        script_of_function(wrong, None)


def test_a_function_without_a_source_is_refused() -> None:
    names: dict[str, Any] = {}
    exec("def train(): pass", names)
    with pytest.raises(WrongArgumentError, match="the source of train is not known"):
        script_of_function(names["train"], None)


@pytest.mark.parametrize("value", [Path("a"), object(), float("nan"), [print]])
def test_arguments_that_are_no_literals_are_refused(value: Any) -> None:
    with pytest.raises(WrongArgumentError, match=r"func_args\['n'\] is .*: only numbers, strings"):
        script_of_function(countdown, {"n": value})


def test_modules_beside_a_script_are_sent_with_it(tmp_path: Path) -> None:
    for name, text in {
        "train.py": "import os, model.deep\nfrom data import load\n",
        "model.py": "import train\n",
        "data.py": "def load():\n    import rare\n",
        "rare.py": "",
        "unused.py": "",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    script = script_of_file(tmp_path / "train.py")
    assert sorted(script.files) == ["data.py", "model.py", "rare.py", "train.py"]
    template: dict[str, Any] = {"spec": {"containers": [{}]}}
    script.add_to(template)
    items = template["spec"]["volumes"][0]["downwardAPI"]["items"]
    assert sorted(item["path"] for item in items) == sorted(script.files)
    named = {item["fieldRef"]["fieldPath"].split("'")[1] for item in items}
    assert named == template["metadata"]["annotations"].keys()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder with a module and two packages, from which Python runs."""
    (tmp_path / "own_losses.py").touch()
    for package in ("own_models", "own_data"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_modules_of_this_machine_that_a_function_imports_are_named(project: Path) -> None:
    def train() -> None:
        import json

        import own_losses
        import pytest
        from own_models.bert import Bert

        print(json, pytest, own_losses, Bert)

    losses, models = project / "own_losses.py", project / "own_models"
    named = re.escape(
        f"train imports own_losses ({losses}), own_models ({models}), which are not sent with it"
    )
    with pytest.warns(UserWarning, match=f"{named}.*CustomTrainerScript"):
        script_of_function(train, None)


def test_a_relative_import_of_a_function_is_refused() -> None:
    def train() -> None:
        from . import model

        print(model)

    with pytest.raises(WrongArgumentError, match="train imports relatively"):
        script_of_function(train, None)


def test_packages_beside_a_script_are_named(project: Path) -> None:
    (project / "train.py").write_text("import own_losses, own_models.bert, own_absent", encoding="utf-8")
    (project / "own_losses.py").write_text("import own_data", encoding="utf-8")
    named = re.escape(
        f"own_data ({project / 'own_data'}), own_models ({project / 'own_models'}), which are not"
    )
    with pytest.warns(UserWarning, match=f"train.py imports {named}"):
        script = script_of_file(project / "train.py")
    assert set(script.files) == {"train.py", "own_losses.py"}


def test_a_module_is_not_sent_in_place_of_a_package_of_its_name(project: Path) -> None:
    (project / "own_models.py").touch()
    (project / "train.py").write_text("import own_models, own_losses", encoding="utf-8")
    named = re.escape(f"own_models ({project / 'own_models'}), which is not")
    with pytest.warns(UserWarning, match=f"train.py imports {named}"):
        script = script_of_file(project / "train.py")
    assert set(script.files) == {"train.py", "own_losses.py"}, "Python imports the package"


def test_packages_without_init_are_named(project: Path) -> None:
    """Python 3 imports a folder that has none, unless there is another module of its name."""
    for module in (
        "own_nets/bert.py",
        "own_zoo/vision/vit.py",
        "yaml/dump.py",
        "json/dump.py",
        "own_losses/a.py",
    ):
        (project / module).parent.mkdir(parents=True)
        (project / module).touch()
    (project / "own_empty").mkdir()
    (project / "own_losses.py").touch()
    imports = "import own_nets.bert, own_zoo.vision.vit, yaml, json, own_losses, own_empty"
    (project / "train.py").write_text(imports, encoding="utf-8")
    named = re.escape(f"own_nets ({project / 'own_nets'}), own_zoo ({project / 'own_zoo'}), which are not")
    with pytest.warns(UserWarning, match=f"train.py imports {named}"):
        script_of_file(project / "train.py")


def test_the_mark_that_editors_of_windows_write_first_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)\n", encoding="utf-8-sig")
    assert script_of_file(tmp_path / "train.py").files == {"train.py": "print(1)\n"}


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("train.py", "#" * 300_000, "train.py has 300,000 bytes, and at most 204,800 can be sent"),
        ("train.py", "def", "cannot send .*invalid syntax"),
        ("my train.py", "", "my train.py cannot be sent: name it by at most 55 letters"),
        ("train.py", None, "cannot send .*No such file"),
    ],
)
def test_scripts_that_cannot_be_sent(tmp_path: Path, name: str, text: str | None, says: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(WrongArgumentError, match=says):
        script_of_file(tmp_path / name)
