"""Kubernetes quantities, as far as Laneway reads and writes them.

Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re
from decimal import Decimal

PATTERN = r"^([0-9]+|[0-9]*\.[0-9]+|[0-9]+\.)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][-+]?[0-9]+)?$"
"""What Laneway accepts as a quantity: a number of zero or more, and a suffix."""

_FACTORS = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}


_LARGEST_EXPONENT = 18
"""Larger ones are no amount of anything here, and take minutes to compute."""

_LONGEST_TEXT = 64
"""Kubernetes keeps no more digits than an integer of 64 bits has, and a long number takes seconds to compute."""

_TOO_MANY_BYTES = Decimal(2**63)


def parse(text: str | int) -> Decimal:
    """Return the value of a quantity such as ``4Gi``, ``1.5`` or ``250m``.

    Raises:
        ValueError: the text is not a quantity.
    """
    if isinstance(text, str) and len(text) > _LONGEST_TEXT:
        raise ValueError(
            f"{text[:20]!r}… has {len(text)} characters and is no quantity; write a number with an optional suffix, such as 512Mi "
            "or 4Gi"
        )
    match = re.match(PATTERN, str(text))
    if match is None:
        raise ValueError(
            f"{text!r} is not a quantity; write a number with an optional suffix, such as 512Mi or 4Gi"
        )
    number, suffix = match.group(1), match.group(2) or ""
    if suffix in _FACTORS:
        return Decimal(number) * _FACTORS[suffix]
    if abs(int(suffix[1:])) > _LARGEST_EXPONENT:
        raise ValueError(
            f"{text!r} has an exponent beyond {_LARGEST_EXPONENT}; write a suffix such as Gi instead"
        )
    return Decimal(number + suffix)


def parse_bytes(text: str | int) -> int:
    """Return a quantity of memory in bytes, rounded up.

    Raises:
        ValueError: the text is not a quantity, or is 8Ei or more.
    """
    value = parse(text)
    if value >= _TOO_MANY_BYTES:
        raise ValueError(f"{text!r} is not less than 8Ei; write an amount of memory such as 512Mi or 4Gi")
    return int(value.to_integral_value(rounding="ROUND_CEILING"))


def format_bytes(size: int) -> str:
    """Return a size for people: the largest binary unit that leaves a number of one or more, one decimal."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
