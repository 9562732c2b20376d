"""Texts and small readers: the OutOfMemoryError's message, the environment."""

from __future__ import annotations

import pytest
from laneway.client.environment import Environment
from laneway.client.out_of_memory import full_message, in_units, overrun_message

MIB = 1 << 20


def test_the_message_names_limit_use_request_and_what_would_fit() -> None:
    message = overrun_message("GPU-1", 256 * MIB, 240 * MIB, 32 * MIB, "aten.mm.default")
    assert message == (
        "Laneway: out of GPU memory: this process may hold 256.0 MiB of GPU-1, the quota of its share. "
        "It holds 240.0 MiB, and aten.mm.default asked for 32.0 MiB more; at most 16.0 MiB would have fitted. "
        "Ask for a larger share (spec.gpus; 272.0 MiB are needed at this point), or use a smaller batch."
    )


def test_a_full_gpu_is_nobodys_quota() -> None:
    message = full_message("GPU-1", 100 * MIB, 90 * MIB, 32 * MIB, "aten.mm.default")
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


def test_no_variable_means_no_laneway() -> None:
    assert Environment.read({}) is None
    assert Environment.read({"LANEWAY_DIR": ""}) is None


def test_a_container_with_one_gpu_needs_not_name_it() -> None:
    environment = Environment.read({"LANEWAY_DIR": "/run/laneway", "LANEWAY_GPUS": "GPU-1"})
    assert environment is not None
    assert environment.socket_path == "/run/laneway/agent.sock"
    assert environment.gpu is None


@pytest.mark.parametrize(
    ("local_rank", "gpu"), [("", "GPU-1"), ("0", "GPU-1"), ("1", "GPU-2"), ("x", "GPU-1")]
)
def test_a_process_of_several_has_the_gpu_of_its_local_rank(local_rank: str, gpu: str) -> None:
    variables = {"LANEWAY_DIR": "/run/laneway", "LANEWAY_GPUS": "GPU-1,GPU-2", "LOCAL_RANK": local_rank}
    environment = Environment.read(variables)
    assert environment is not None
    assert environment.gpu == gpu


def test_a_wrong_number_is_passed_over() -> None:
    environment = Environment.read({"LANEWAY_DIR": "/d", "LANEWAY_STOP_TIMEOUT_SECONDS": "soon"})
    assert environment is not None
    assert environment.stop_timeout_seconds == 20
