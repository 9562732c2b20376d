"""Configuration files: a wrong one is answered with the file, the field and what was found."""

import pytest
from laneway.api.config_file import ConfigError, parse_config
from laneway.api.node_config import NodeConfig
from laneway.api.simulated_gpus import SimulatedGPUs


def test_an_empty_file_gives_the_defaults() -> None:
    assert parse_config("", NodeConfig, "node.yaml") == NodeConfig()


def test_names_are_written_as_kubernetes_writes_them() -> None:
    config = parse_config("gpuSource: simulated\nturns: {quantumMilliseconds: 50}\n", NodeConfig, "node.yaml")
    assert (config.gpu_source, config.turns.quantum_milliseconds) == ("simulated", 50)


@pytest.mark.parametrize(
    ("text", "want"),
    [("", "lanes"), ("sharing: off", "off"), ('sharing: "off"', "off"), ("sharing: lanes", "lanes")],
)
def test_the_switch_is_read_quoted_or_not(text: str, want: str) -> None:
    """YAML takes an unquoted off for a boolean."""
    assert parse_config(text, NodeConfig, "node.yaml").sharing == want


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpuSource: cuda", "node.yaml: gpuSource: Input should be 'nvml' or 'simulated' (found 'cuda')"),
        (
            "turn: {}",
            "node.yaml: turn: Extra inputs are not permitted: write one of deviceStrategy, driverRoot, enforcement,",
        ),
        (
            "turns: {polici: fair}",
            "node.yaml: turns.polici: Extra inputs are not permitted (found 'fair'): write one of firstIterationSeconds, lasThresholdsSeconds, policy,",
        ),
        ("turns: 5", "(found 5): write names with values"),
        ("health: {ignoredXids: 13}", "(found 13): write a list"),
        ("sharing: all", "node.yaml: sharing: Input should be 'off' or 'lanes' (found 'all')"),
        (
            "overcommitPercent: 200",
            "overcommitPercent was replaced: write sharing: lanes to let jobs share GPUs, or leave it out",
        ),
        (
            "turns: {policy: lottery}",
            "node.yaml: turns.policy: Input should be 'fair', 'las', 'pack' or 'srtf' (found 'lottery')",
        ),
        (
            "health: {ignoredXids: [13, 79], resetXids: [79]}",
            "node.yaml: health: Value error, ignoredXids and resetXids both list XID 79: write it in the one that is to hold",
        ),
        ("health: {quarantineXids: [-1]}", "node.yaml: health.quarantineXids.0: Input should be greater"),
        ("{", "node.yaml: this is not YAML"),
        ("- 1", "node.yaml: (whole file): Input should be a valid dictionary"),
    ],
)
def test_a_wrong_node_file_names_the_place(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, NodeConfig, "node.yaml")
    assert words in str(caught.value)


def test_simulated_gpus_are_described_by_groups() -> None:
    text = "gpus: [{model: A, memory: 1Gi, count: 2, numaNode: 0}, {model: B}]\nnvlinks: [[0, 1]]\n"
    gpus = parse_config(text, SimulatedGPUs, "gpus.yaml")
    assert [(gpu.model, gpu.memory_bytes, gpu.count) for gpu in gpus.gpus] == [
        ("A", 2**30, 2),
        ("B", 2**34, 1),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpus: []", "gpus.yaml: gpus:"),
        ("gpus: [{memory: lots}]", "gpus.yaml: gpus.0.memory"),
        ("gpus: [{count: 2}]\nnvlinks: [[0, 2]]", "must be two different indices from 0 to 1"),
    ],
)
def test_a_wrong_profile_of_simulated_gpus_names_the_place(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, SimulatedGPUs, "gpus.yaml")
    assert words in str(caught.value)
