"""The parameters of policies: their defaults, and values for them from a configuration file or a command line.

A policy is a dataclass, and its fields are its parameters. Each has a default, which determines the accepted type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import singledispatch
from types import MappingProxyType
from typing import Any


def parameters(policy: Callable[..., object]) -> Mapping[str, object]:
    """Return the names of a policy's parameters, with their defaults."""
    if not is_dataclass(policy):
        return {}
    return {field.name: _default(field) for field in fields(policy) if field.init}


def checked(policy: Callable[..., object], options: Mapping[str, object], what: str) -> dict[str, Any]:
    """Return options in the types of a policy's parameters.

    Args:
        policy: the policy with these parameters.
        options: values by name, of the types that YAML has.
        what: the policy, for messages.

    Raises:
        ValueError: there is no such parameter, or a value has the wrong type; the message says what to write.
    """
    defaults = parameters(policy)
    for option in options:
        if option not in defaults:
            have = f"it has {', '.join(defaults)}" if defaults else "it has none"
            raise ValueError(f"{what} has no parameter {option!r}; {have}")
    return {
        option: _like(defaults[option], value, f"parameter {option} of {what}")
        for option, value in options.items()
    }


def from_text(default: object, text: str) -> object:
    """Parse a parameter from a command line: ``3.5``, ``true``, ``1,2,3`` for a list, ``a:2,b:1`` for a mapping.

    Args:
        default: the parameter's.
        text: what was written after ``name=``.

    Raises:
        ValueError: it is not of the default's type; says what to write.
    """
    if isinstance(default, bool):
        if text not in ("true", "false"):
            raise ValueError(f"{text!r}: write true or false")
        return text == "true"
    if isinstance(default, str):
        return text
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if isinstance(default, tuple):
        return tuple(_parsed(part) for part in parts)
    if isinstance(default, Mapping):
        named = [part.rpartition(":") for part in parts]
        if not all(name and colon for name, colon, _ in named):
            raise ValueError(f"{text!r}: write name:number for each, such as a:2,b:1")
        return {name: _parsed(number) for name, _, number in named}
    if default is None and text == "none":
        return None
    return _parsed(text)


def _default(field: Field[object]) -> object:
    if field.default is not MISSING:
        return field.default
    if field.default_factory is MISSING:
        raise ValueError(f"parameter {field.name} has no default: give it one")
    made = field.default_factory()
    return dict(made) if isinstance(made, Mapping) else made


def _parsed(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    return int(number) if number.is_integer() else number


@singledispatch
def _like(default: object, value: object, what: str) -> object:
    """Return a value in the type of a parameter's default."""
    raise ValueError(f"{what} has a default that cannot be written: {default!r}")


@_like.register
def _(default: bool, value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{what} is {value!r}: write true or false")
    return value


@_like.register
def _(default: float, value: object, what: str) -> float:
    return _number(value, what)


@_like.register
def _(default: int, value: object, what: str) -> int:
    number = _number(value, what)
    if not number.is_integer():
        raise ValueError(f"{what} is {value!r}: write a whole number")
    return int(number)


@_like.register
def _(default: None, value: object, what: str) -> float | None:
    return None if value is None else _number(value, what)


@_like.register
def _(default: str, value: object, what: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} is {value!r}: write a text")
    if isinstance(default, Enum) and value not in (names := [str(member) for member in type(default)]):
        raise ValueError(f"{what} is {value!r}: write one of {', '.join(names)}")
    return type(default)(value)


@_like.register
def _(default: tuple, value: object, what: str) -> tuple[float, ...]:  # type: ignore[type-arg]
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{what} is {value!r}: write a list of numbers")
    return tuple(_number(item, what) for item in value)


@_like.register
def _(default: Mapping, value: object, what: str) -> Mapping[str, float]:  # type: ignore[type-arg]
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} is {value!r}: write a number for each name")
    return MappingProxyType({str(name): _number(item, what) for name, item in value.items()})


def _number(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        raise ValueError(f"{what} is {value!r}: write a number")
    return float(value)
