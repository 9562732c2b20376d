"""Quantities: what people write in a spec, and what Laneway writes in a status."""

from decimal import Decimal

import pytest
from laneway.api import quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("512Mi", 512 * 2**20),
        ("8Gi", 8 * 2**30),
        ("1.5Gi", 3 * 2**29),
        ("2G", 2 * 10**9),
        ("1e3", 1000),
        (7, 7),
    ],
)
def test_a_size_is_read_as_kubernetes_reads_it(text: str | int, value: int) -> None:
    assert quantity.parse_bytes(text) == value


def test_a_fraction_of_a_byte_counts_as_a_whole_one() -> None:
    assert quantity.parse_bytes("1500m") == 2


@pytest.mark.parametrize("text", ["", "many", "-1Gi", "5 Gi", "5GiB", "0x10", "Gi"])
def test_what_is_no_quantity_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="such as 512Mi or 4Gi"):
        quantity.parse(text)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 2**40, "5.0 TiB")]
)
def test_a_size_is_shown_in_its_largest_unit(size: int, text: str) -> None:
    assert quantity.format_bytes(size) == text


@pytest.mark.parametrize("text", ["1Ei", "7E", "1e18", "250m"])
def test_exponents_and_the_suffixes_that_begin_like_them_are_told_apart(text: str) -> None:
    factor = {"1Ei": 2**60, "7E": 7 * 10**18, "1e18": 10**18, "250m": Decimal("0.25")}[text]
    assert quantity.parse(text) == factor


@pytest.mark.parametrize("text", ["1e400", "1e200000", "1e99999999999999999999", "8Ei", "9999999999E"])
def test_absurd_amounts_are_refused_at_once(text: str) -> None:
    with pytest.raises(ValueError, match=r"exponent|8Ei"):
        quantity.parse_bytes(text)


@pytest.mark.parametrize(
    "text", ["9" * 65, "1" + "0" * 1_000_000, "0." + "0" * 5000 + "1"], ids=["65", "a million", "small"]
)
def test_more_digits_than_kubernetes_keeps_are_refused_before_they_are_computed(text: str) -> None:
    with pytest.raises(ValueError, match=rf"has {len(text)} characters .* such as 512Mi or 4Gi"):
        quantity.parse(text)
