"""``operator.yaml``, right and wrong."""

from __future__ import annotations

import pytest
from laneway.api.config_file import ConfigError, parse_config
from laneway.operator import logs
from laneway.operator.main import main, read_config
from laneway.scheduling.admission.quota import Quota
from laneway.scheduling.config.operator_config import OperatorConfig
from laneway.scheduling.order.fifo import Fifo
from laneway.scheduling.order.multilevel_las import MultilevelLAS
from laneway.scheduling.order.tiresias_las import TiresiasLAS


def parsed(text: str) -> OperatorConfig:
    return parse_config(text, OperatorConfig, "operator.yaml")


def test_an_empty_file_gives_the_defaults() -> None:
    config = parsed("")
    assert config == OperatorConfig()
    assert config.timeouts.gang_timeout_seconds == 120
    assert config.cycle.resync_seconds == 10
    assert isinstance(config.scheduling.policies().order, MultilevelLAS)


def test_policies_are_chosen_by_name_with_their_options_in_camel_case() -> None:
    text = """
    scheduling:
      order: {policy: tiresias-las, options: {thresholdsGpuSeconds: [10, 20], promotionFactor: 4}}
      preemption: {policy: lowest-first, options: {minRunSeconds: 5}}
    """
    policies = parsed(text).scheduling.policies()
    assert policies.order == TiresiasLAS(thresholds_gpu_seconds=(10.0, 20.0), promotion_factor=4.0)
    assert isinstance(parsed("scheduling: {order: {policy: fifo}}").scheduling.policies().order, Fifo)


def test_a_preset_is_refused_as_an_order_with_what_to_write() -> None:
    with pytest.raises(ConfigError, match=r"write order: \{policy: fifo\}, elastic: \{policy: pollux\}"):
        parsed("scheduling: {order: {policy: pollux}}")


def test_quotas_of_namespaces_are_chosen_as_admission() -> None:
    text = """
    scheduling:
      admission:
        - {policy: quota, options: {quotaGpus: {team-a: 8}, lendingRatio: 0.5}}
    """
    (quota,) = parsed(text).scheduling.policies().admission
    assert quota == Quota(quota_gpus={"team-a": 8.0}, lending_ratio=0.5)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (
            "scheduling: {order: {policy: shortest}}",
            ["scheduling", "no order policy 'shortest'", "fifo", "tiresias-las"],
        ),
        ("scheduling: {order: {policy: fifo, options: {speed: 1}}}", ["speed", "fifo"]),
        ("scheduling: {admission: [{policy: quotas}]}", ["no admission policy 'quotas'", "quota"]),
        ("sharing: all", ["sharing", "'off' or 'lanes'"]),
        (
            "scheduling: {activePercent: 100}",
            ["scheduling", "activePercent was replaced: write sharing: lanes at the top"],
        ),
        (
            "scheduling: {placement: {policy: lanes}}",
            ["placement: write sharing: lanes at the top of the file"],
        ),
        (
            "scheduling: {joining: {keepGainRatio: 0.5}}",
            ["keep_gain_ratio is 0.5: write at most min_gain_ratio, 0.1"],
        ),
        ("timeouts: {gangTimeoutSeconds: soon}", ["timeouts.gangTimeoutSeconds", "'soon'"]),
        ("timeouts: {gangTimeout: 5}", ["timeouts.gangTimeout"]),
        ("lease: {durationSeconds: 5, renewDeadlineSeconds: 10}", ["lease", "rising order"]),
        ("scheduling: {topology: {levels: [rack/]}}", ["scheduling.topology.levels.0", "'rack/'"]),
        ("scheduling: {topology: {levels: [rack, rack]}}", ["scheduling.topology", "lists rack twice"]),
        ("metricsPort: 70000", ["metricsPort", "65535"]),
        ("a: [", ["not YAML"]),
    ],
)
def test_a_wrong_file_is_answered_with_the_place_and_what_to_write(text: str, want: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(text)
    for part in ["operator.yaml", *want]:
        assert part in str(caught.value)


def test_a_wrong_file_stops_the_command_before_it_connects(tmp_path, capsys) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "operator.yaml"
    path.write_text("logLevel: loud")
    assert main(["--config", str(path)]) == 2
    assert "logLevel" in capsys.readouterr().err
    assert main(["--config", str(tmp_path / "missing.yaml")]) == 2


def test_no_cluster_in_reach_is_said_with_what_to_do(tmp_path, capsys, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(logs, "configure", lambda level: None)  # its handler would outlast the test
    path = tmp_path / "operator.yaml"
    path.write_text("{}")
    assert read_config(path) == OperatorConfig()
    assert main(["--config", str(path), "--kubeconfig", str(tmp_path / "none")]) == 2
    assert "--kubeconfig" in capsys.readouterr().err
