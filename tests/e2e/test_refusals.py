"""Wrong values and wrong specs are refused with a sentence, and what runs is not affected."""

from __future__ import annotations

from typing import Any

import pytest

from hack.cluster.progress import ClusterError
from hack.demo.install import SYSTEM_NAMESPACE
from tests.e2e.conftest import Bench, Laneway
from tests.e2e.manifests import training_job


def revision(laneway: Laneway) -> str:
    return laneway.installation.helm(
        "status", "laneway", "--namespace", SYSTEM_NAMESPACE, "--output", "json"
    ).split('"version":')[1]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("node.config.overcommitPercent=200", "no longer a value: write sharing: lanes"),
        ("node.config.turns.policy=random", "value must be one of"),
        ("gpu.source=magic", "value must be one of"),
        ("operator.replica=2", "additional properties 'replica' not allowed"),
    ],
)
def test_wrong_chart_values_are_refused(laneway: Laneway, wrong: str, says: str) -> None:
    before = revision(laneway)

    with pytest.raises(ClusterError) as raised:
        laneway.installation.upgrade("--set", wrong)

    assert says in str(raised.value)
    assert revision(laneway) == before


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            {"gpus": {"type": "Share", "sharePercent": 150}},
            "spec.gpus.sharePercent in body should be less than or equal to 100",
        ),
        (
            {"gpus": {"type": "Share", "sharePercent": 50, "count": 1}},
            "count is required when type is Count, and forbidden otherwise",
        ),
        ({"workers": 0}, "spec.workers in body should be greater than or equal to 1"),
        ({"sharing": "Exclusive"}, "set gpus.type to Count"),
        ({"gpus": {"type": "Share", "sharePercent": 50}, "sharingg": "Lanes"}, 'unknown field "sharingg"'),
    ],
)
def test_wrong_specs_are_refused_at_apply_time(bench: Bench, wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ClusterError) as raised:
        bench.jobs.apply([training_job("wrong", spec=wrong)])

    assert says in str(raised.value)
    assert bench.jobs.views() == {}


def test_a_pod_that_asks_for_no_shape_of_gpus_is_refused_by_the_plugin(bench: Bench) -> None:
    """With 100 percent on offer, 150 percent is neither a part of one GPU nor a number of whole GPUs."""
    spec = training_job("odd")["spec"]["template"]["spec"]
    spec["containers"][0]["resources"] = {"limits": {"laneway.dev/gpu-percent": "150"}}
    bench.jobs.apply([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "odd"}, "spec": spec}])
    wait = ("wait", "--for=jsonpath={.status.phase}=Failed", "pod/odd", "--timeout=120s")
    bench.laneway.kubectl.run(*wait, "--namespace", bench.namespace)

    status = bench.laneway.kubectl.get("pod", "odd", "--namespace", bench.namespace)["status"]

    assert status["reason"] == "UnexpectedAdmissionError"
    assert "150 percent is more than one GPU and not a number of whole GPUs" in status["message"]
