"""Quantities: what people write in a spec, and what Laneway writes in a status."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
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


@given(st.integers(min_value=0, max_value=10**12))
def test_written_seconds_are_read_back_to_the_millisecond(milliseconds: int) -> None:
    assert quantity.parse(quantity.format_seconds(milliseconds / 1000)) * 1000 == milliseconds


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 2**40, "5.0 TiB")]
)
def test_a_size_is_shown_in_its_largest_unit(size: int, text: str) -> None:
    assert quantity.format_bytes(size) == text
