"""The text of the OutOfMemoryError."""

from __future__ import annotations

import pytest
from laneway.client.memory.out_of_memory import device_full_message, in_units, overrun_message

MIB = 1 << 20


def test_the_message_names_limit_use_request_and_what_would_fit() -> None:
    message = overrun_message("GPU-1", 256 * MIB, 240 * MIB, 32 * MIB, "aten.mm.default")
    assert message == (
        "Laneway: out of GPU memory: this process may hold 256.0 MiB of GPU-1, the quota of its share. "
        "It holds 240.0 MiB, and aten.mm.default asked for 32.0 MiB more; at most 16.0 MiB would have fitted. "
        "Ask for a larger share (spec.gpus; 272.0 MiB are needed at this point), or use a smaller batch."
    )


def test_the_message_for_a_full_gpu_names_no_quota() -> None:
    message = device_full_message("GPU-1", 100 * MIB, 90 * MIB, 32 * MIB, "aten.mm.default")
    assert message == (
        "Laneway: out of GPU memory: GPU-1 is full. aten.mm.default asked for 32.0 MiB; this process holds 90.0 MiB, and "
        "10.0 MiB are free. Other processes hold the rest."
    )


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1536 * 1024, "1.5 MiB"),
        (1 << 50, "1024.0 TiB"),
    ],
)
def test_sizes_are_readable(size_bytes: int, text: str) -> None:
    assert in_units(size_bytes) == text
