"""The checkpoints of libraries are noticed when they are saved, and when a later run goes on from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.client.frameworks.conftest import SCRIPTS
from tests.support.client.jobs import Job
from tests.support.node_agent.node import Container


def noticed(job: Job) -> Any:
    status, output, errors = job.failure()
    assert status == 0, errors
    return json.loads(output.splitlines()[-1])


@pytest.mark.parametrize("library", [pytest.param("lightning", marks=pytest.mark.long), "hugging-face"])
def test_a_librarys_checkpoints_are_noticed(
    container: Callable[..., Container], run: Callable[..., Job], library: str
) -> None:
    first = run("saving.py", library, scripts=SCRIPTS, container=container("first"))
    assert noticed(first) == {"trains": True, "saved": True, "loaded": False}
    again = run(
        "saving.py", library, "resume", scripts=SCRIPTS, work=first.work, container=container("again")
    )
    assert noticed(again) == {"trains": True, "saved": True, "loaded": True}
