"""The reference page of Python has each public name with its arguments."""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import Any

import pytest
from laneway import client, sdk

from hack.reference.python import _signature, _text, python_page

PAGE = python_page()


@pytest.mark.parametrize("module", [sdk, client], ids=lambda module: module.__name__)
def test_each_public_name_is_there(module: ModuleType) -> None:
    (part,) = re.findall(rf"\n## {re.escape(module.__name__)}\n(.*?)(?=\n## |\Z)", PAGE, re.DOTALL)
    for name in module.__all__:
        assert f"\n### {name}\n" in part or f"\n- `{name}`" in part, name


@pytest.mark.parametrize("class_", [sdk.TrainingJobClient, client.Checkpoint])
def test_each_method_is_there_with_its_parameters(class_: type) -> None:
    methods = [each for each in vars(class_).items() if each[0][0] != "_" and inspect.isfunction(each[1])]
    assert methods
    for name, method in methods:
        (part,) = re.findall(rf"\n#### {class_.__name__}\.{name}\n(.*?)(?=\n##|\Z)", PAGE, re.DOTALL)
        for parameter in inspect.signature(method).parameters.values():
            assert parameter.name == "self" or f"{parameter.name}: {parameter.annotation}" in part


@pytest.mark.parametrize("record", [sdk.TrainingJob, sdk.CustomTrainer, sdk.CustomTrainerScript])
def test_each_field_is_there(record: Any) -> None:
    (part,) = re.findall(rf"\n### {record.__name__}\n(.*?)(?=\n##|\Z)", PAGE, re.DOTALL)
    names = [*record.__dataclass_fields__, *(name for name in vars(record) if name[0] != "_")]
    for name in names:
        assert f"\n- `{name}: " in part, f"{name} needs a text behind it"


def test_how_a_function_is_written() -> None:
    def wait(name: str, *, timeout: float | None = 1.5) -> list[str]:
        return [name] if timeout else []

    assert _signature("wait", wait) == (
        "```python\nwait(name: str, *, timeout: float | None = 1.5) -> list[str]\n```\n"
    )
    lines = _signature("w" * 80, wait).splitlines()
    assert lines[2:-2] == ["    name: str,", "    *,", "    timeout: float | None = 1.5,"]
    doc = "Wait.\n\nArgs:\n    name: of it,\n        in full.\n\nRaises:\n    KeyError: none."
    assert "\n".join(_text(doc)) == (
        "Wait.\n\nArguments:\n\n- `name`: of it,\n  in full.\n\nRaises:\n\n- `KeyError`: none."
    )
