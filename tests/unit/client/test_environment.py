"""The container's environment variables."""

from __future__ import annotations

import pytest
from laneway.client.environment import Environment


def test_no_variable_means_no_laneway() -> None:
    assert Environment.read({}) is None
    assert Environment.read({"LANEWAY_DIR": ""}) is None


def test_a_container_with_one_gpu_need_not_name_it() -> None:
    environment = Environment.read({"LANEWAY_DIR": "/run/laneway", "LANEWAY_GPUS": "GPU-1"})
    assert environment is not None
    assert environment.socket_path == "/run/laneway/agent.sock"
    assert environment.gpu is None


@pytest.mark.parametrize(
    ("local_rank", "gpu"), [("", "GPU-1"), ("0", "GPU-1"), ("1", "GPU-2"), ("x", "GPU-1")]
)
def test_one_of_several_processes_has_the_gpu_of_its_local_rank(local_rank: str, gpu: str) -> None:
    variables = {"LANEWAY_DIR": "/run/laneway", "LANEWAY_GPUS": "GPU-1,GPU-2", "LOCAL_RANK": local_rank}
    environment = Environment.read(variables)
    assert environment is not None
    assert environment.gpu == gpu


def test_a_process_whose_environment_was_cleared_names_only_its_rank() -> None:
    environment = Environment.read({"LANEWAY_DIR": "/run/laneway", "LOCAL_RANK": "1"})
    assert environment is not None
    assert (environment.gpu, environment.local_rank) == (None, 1)


def test_an_invalid_number_is_ignored() -> None:
    environment = Environment.read({"LANEWAY_DIR": "/d", "LANEWAY_STOP_TIMEOUT_SECONDS": "soon"})
    assert environment is not None
    assert environment.stop_timeout_seconds == 20
