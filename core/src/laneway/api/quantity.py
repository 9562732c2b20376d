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


def parse(text: str | int) -> Decimal:
    """Return the value of a quantity such as ``4Gi``, ``1.5`` or ``250m``.

    Raises:
        ValueError: the text is not a quantity.
    """
    match = re.match(PATTERN, str(text))
    if match is None:
        raise ValueError(
            f"{text!r} is not a quantity; write a number with an optional suffix, such as 512Mi or 4Gi"
        )
    number, suffix = match.group(1), match.group(2) or ""
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
        return Decimal(number + suffix)
    return Decimal(number) * _FACTORS[suffix]


def parse_bytes(text: str | int) -> int:
    """Return a quantity of memory in bytes, rounded up."""
    value = parse(text)
    return int(value.to_integral_value(rounding="ROUND_CEILING"))


def format_seconds(seconds: float) -> str:
    """Return a duration as a quantity with millisecond precision: ``12.5`` is ``12500m``, ``3`` is ``3``."""
    milliseconds = round(seconds * 1000)
    return str(milliseconds // 1000) if milliseconds % 1000 == 0 else f"{milliseconds}m"


def format_bytes(size: int) -> str:
    """Return a size for people: the largest binary unit that leaves a number of one or more, one decimal."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
