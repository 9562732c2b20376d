"""What is read of a worker's log when its stream breaks off, ends too early, or the worker is replaced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from laneway.api import names

from hack.cluster.progress import ClusterError
from hack.demo import output
from hack.demo.api import Api
from hack.demo.output import Outputs

UID = "uid-1"


@dataclass
class FakeApi:
    """Gives, for each read of the log, lines and whether it breaks off then."""

    reads: list[tuple[list[str], bool]]
    pods: list[dict[str, Any] | None] = field(default_factory=list)
    """The pod after each read of the whole log; None: it is gone."""

    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[str]:
        lines, breaks = self.reads.pop(0)
        yield from lines
        if breaks:
            raise ClusterError("the kubelet broke off")

    def get(self, path: str) -> dict[str, Any]:
        pod = self.pods.pop(0)
        if pod is None:
            raise ClusterError("not found")
        return pod


def worker(phase: str, uid: str = UID) -> dict[str, Any]:
    labels = {names.JOB_LABEL: "train", names.RANK_LABEL: "0", names.ATTEMPT_LABEL: "1"}
    return {
        "metadata": {"name": "train-0", "uid": uid, "labels": labels},
        "status": {"phase": phase, "containerStatuses": [{"state": {"running": {}}}]},
    }


@pytest.mark.parametrize(
    ("reads", "pods", "want"),
    [
        pytest.param(
            [(["a"], False), (["a", "b"], False), (["a", "b"], False)],
            [worker("Succeeded")] * 2,
            ["a", "b"],
            id="the runtime writes the last line after the stream's end",
        ),
        pytest.param(
            [(["a", "hal"], True), ([], True), (["a", "half", "c"], False), (["a", "half", "c"], False)],
            [worker("Running"), worker("Running"), worker("Failed")],
            ["a", "half", "c"],
            id="the kubelet breaks off within a line, and does not answer for a while",
        ),
        pytest.param(
            [(["a"], True), (["other"], False)],
            [worker("Running", "uid-2")],
            ["a"],
            id="another attempt's worker has its name",
        ),
        pytest.param([(["a"], True), ([], True)], [None], ["a"], id="the pod is gone"),
        pytest.param([([], False), ([], False)], [worker("Succeeded")], [], id="it prints nothing"),
    ],
)
def test_a_log_is_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
    reads: list[tuple[list[str], bool]],
    pods: list[dict[str, Any] | None],
    want: list[str],
) -> None:
    monkeypatch.setattr(output, "_PAUSE_SECONDS", 0)
    api = FakeApi(reads, pods)
    outputs = Outputs(cast("Api", api), "e2e")
    outputs.follow([worker("Running")])
    outputs.settle(60)
    assert [each.lines for each in outputs.attempts("train")] == [want]
    assert (api.reads, api.pods) == ([], [])
