"""Wrong values are refused before anything reaches a cluster, with a sentence that names the value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.chart.generated import CHART
from hack.verify.chart import rendered
from hack.verify.failure import CheckFailedError

SIMULATED = "gpu: {source: simulated, simulated: {gpus: [{count: 2}], nvlinks: [[0, 5]]}}"

WRONG = {
    "a misspelt group": ("operatr: {}", "additional properties 'operatr' not allowed"),
    "a misspelt value": (
        "operator: {replica: 2}",
        "at '/operator': additional properties 'replica' not allowed",
    ),
    "text for a number": ("operator: {replicas: two}", "at '/operator/replicas': got string, want integer"),
    "an unknown source of GPUs": (
        "gpu: {source: fake}",
        "at '/gpu/source': value must be one of 'nvml', 'simulated'",
    ),
    "simulated GPUs without any": (
        "gpu: {source: simulated}",
        "gpu.source is simulated, but gpu.simulated.gpus is empty: write the GPUs of a node, such as",
    ),
    "a group of no nodes": (
        "nodeGroups: {a100: {config: {enforcement: {level: MPS}}}}",
        "nodeGroups.a100: it has neither nodeSelector nor affinity: write which nodes it has, such as",
    ),
    "a group with lanes of its own": (
        "nodeGroups: {a100: {nodeSelector: {a: b}, config: {lanes: {maxPerGpu: 2}}}}",
        "at '/nodeGroups/a100/config/lanes': value must be '(the same for all groups: write it below node)'",
    ),
    "a misspelt value of a group": (
        "nodeGroups: {a100: {nodeSelektor: {a: b}}}",
        "additional properties 'nodeSelektor' not allowed",
    ),
    "two monitors": (
        "metrics: {podMonitor: {enabled: true}, serviceMonitor: {enabled: true}}",
        "metrics.podMonitor and metrics.serviceMonitor are both enabled: choose one",
    ),
    "secure metrics that a PodMonitor cannot read": (
        "metrics: {podMonitor: {enabled: true}, secure: {enabled: true}}",
        "metrics.secure and metrics.podMonitor are both enabled: enable metrics.serviceMonitor",
    ),
    "an alert that there is not": (
        "metrics: {prometheusRule: {disabled: {LanewayJobWaits: true}}}",
        "metrics.prometheusRule.disabled: there is no alert LanewayJobWaits: write one of LanewayOperatorDown, ",
    ),
    "an NVLink to a GPU that is not there": (
        SIMULATED,
        "gpu.simulated.nvlinks: [0, 5] must be two different indices from 0 to 1",
    ),
    "memory without a number": (
        "gpu: {source: simulated, simulated: {gpus: [{memory: plenty}]}}",
        "at '/gpu/simulated/gpus/0/memory': 'plenty' does not match pattern",
    ),
    "sharing that is neither": ("sharing: all", "at '/sharing': value must be one of 'off', 'lanes'"),
    "sharing for the nodes alone": (
        "node: {config: {sharing: lanes}}",
        "at '/node/config': additional properties 'sharing' not allowed",
    ),
    "the overcommit of an older chart": (
        "node: {config: {overcommitPercent: 200}}",
        "at '/node/config/overcommitPercent': value must be '(no longer a value: write sharing: lanes at the top of the values)'",
    ),
    "the active percent of an older chart": (
        "operator: {config: {scheduling: {activePercent: 100}}}",
        "at '/operator/config/scheduling/activePercent': value must be '(no longer a value: write sharing: lanes",
    ),
    "lanes as a placement policy": (
        "operator: {config: {scheduling: {placement: {policy: lanes}}}}",
        "at '/operator/config/scheduling/placement/policy': value must be '(no longer a value: write sharing: lanes",
    ),
    "reserved memory below none": (
        "node: {config: {reserveMebibytes: -1}}",
        "at '/node/config/reserveMebibytes': minimum: got -1, want 0",
    ),
    "an unknown turn policy": (
        "node: {config: {turns: {policy: random}}}",
        "value must be one of 'fair', 'las', 'pack', 'srtf'",
    ),
    "the source of GPUs said twice": (
        "node: {config: {gpuSource: nvml}}",
        "at '/node/config': additional properties 'gpuSource' not allowed",
    ),
    "an unknown order": (
        "operator: {config: {scheduling: {order: {policy: sjf}}}}",
        "'multilevel-las', 'srsf', 'srtf', 'tiresias-gittins', 'tiresias-las'",
    ),
    "a parameter that no order has": (
        "operator: {config: {scheduling: {order: {policy: fifo, options: {queues: 3}}}}}",
        "at '/operator/config/scheduling/order/options': additional properties 'queues' not allowed",
    ),
    "a leader that stops too late": (
        "operator: {config: {lease: {durationSeconds: 5}}}",
        "retrySeconds 2, renewDeadlineSeconds 10, durationSeconds 5: write them in rising order",
    ),
    "the planner's lanes apart from the nodes'": (
        "operator: {config: {lanes: {maxPerGpu: 2}}}",
        "at '/operator/config': additional properties 'lanes' not allowed",
    ),
    "an amount that is none": (
        "operator: {resources: {limits: {memory: much}}}",
        "at '/operator/resources/limits/memory'",
    ),
    "a relative folder": (
        "node: {kubeletFolder: var/lib/kubelet}",
        "at '/node/kubeletFolder': 'var/lib/kubelet' does not match pattern",
    ),
    "a socket whose folder would be all of the node's": (
        "node: {runtimeSocket: /containerd.sock}",
        "at '/node/runtimeSocket': '/containerd.sock' does not match pattern",
    ),
}


@pytest.mark.parametrize(("values", "sentence"), WRONG.values(), ids=WRONG.keys())
def test_wrong_values_are_refused(values_file: Callable[[str], Path], values: str, sentence: str) -> None:
    with pytest.raises(CheckFailedError) as refusal:
        rendered(values_file(values))
    assert sentence in str(refusal.value)


def needed(below: dict[str, Any], *path: str) -> Iterator[tuple[str, ...]]:
    """The paths of the values that the schema requires."""
    for name in below.get("required", ()):
        yield (*path, name)
        yield from needed(below["properties"][name], *path, name)


def removed(paths: Iterable[tuple[str, ...]]) -> str:
    """Values that remove these of the chart, as a key with nothing below it does."""
    values: dict[str, Any] = {}
    for path in paths:
        above = values
        for name in path[:-1]:
            above = above.setdefault(name, {})
        above[path[-1]] = None
    return json.dumps(values)


NEEDED = tuple(needed(json.loads((CHART / "values.schema.json").read_text())["allOf"][0]))


@pytest.mark.parametrize("depth", sorted({len(path) for path in NEEDED}))
def test_a_value_that_the_chart_needs_is_not_removed(values_file: Callable[[str], Path], depth: int) -> None:
    there = [path for path in NEEDED if len(path) == depth]
    with pytest.raises(CheckFailedError) as refusal:
        rendered(values_file(removed(there)))
    for *above, name in there:
        at = "".join(f"/{part}" for part in above)
        assert re.search(rf"at '{at}': missing propert[^\n]*'{name}'", str(refusal.value))


def test_every_other_value_can_be_removed(values_file: Callable[[str], Path]) -> None:
    def others(values: dict[str, Any], *path: str) -> Iterator[tuple[str, ...]]:
        for name, value in values.items():
            if (*path, name) not in NEEDED:
                yield (*path, name)
            elif isinstance(value, dict):
                yield from others(value, *path, name)

    removable = list(others(yaml.safe_load((CHART / "values.yaml").read_text())))
    assert {("commonLabels",), ("operator", "podLabels"), ("node", "agent", "capabilities")} <= {*removable}
    assert "kind: DaemonSet" in rendered(values_file(removed(removable)), "--set", "board.enabled=true")
