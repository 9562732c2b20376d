"""Workers as the API server shows them."""

from __future__ import annotations

import pytest
from laneway.api import names
from laneway.operator.state.records.worker_pod import parse_worker_pod

from tests.unit.operator.builders import a_job, a_pod


@pytest.mark.parametrize(("spelled", "percent"), [("100", 100), ("1k", 1000), ("1600", 1600)])
def test_a_share_is_read_in_the_spelling_of_the_api_server(spelled: str, percent: int) -> None:
    """It shortens a thousand, the share of ten whole GPUs."""
    raw = a_pod(a_job().placed("n1").record).running().raw
    raw["metadata"]["annotations"][names.GPUS_ANNOTATION] = "GPU-0"
    raw["spec"]["containers"][0]["resources"]["limits"][names.GPU_PERCENT] = spelled
    assert parse_worker_pod(raw).share_percent == percent
