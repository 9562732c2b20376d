"""The nodes of a simulated cluster, from a file. Three formats are recognized:

- the JSON of ``kubectl get gpunodes,nodes -o json``: what each node reports of its GPUs, and its labels; ``nodes`` may be left out;
- Alibaba's "openb" node lists, ``sn,cpu_milli,memory_mib,gpu,model``: one node per line; ``openb_node_list_*.csv`` of its GPU trace
  2023 (https://github.com/alibaba/clusterdata). Nodes without GPUs are skipped;
- Tiresias' and Muri's clusters, ``num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node``: one line; the nodes of a
  switch are a rack, and ``mem_p_node`` is host memory in GB (https://github.com/SymbioticLab/Tiresias, ``simulator/run_sim.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from laneway.api.gpu_node import GPUNodeStatus, moved_seconds_per_gib
from laneway.scheduling import GPU, HostResources, Node
from laneway.scheduling.model.host_resources import CPU, MEMORY
from laneway.scheduling.model.topology_levels import DEFAULT_LEVELS, Domain, domains_of
from laneway.simulator.cluster import in_rack, make_gpus, make_nodes
from laneway.simulator.input_file import InputError, read_json
from laneway.simulator.traces.fields import name, whole
from laneway.simulator.traces.rows import Row, headed_rows

OPENB_COLUMNS = frozenset({"sn", "cpu_milli", "memory_mib", "gpu", "model"})
TIRESIAS_COLUMNS = frozenset(
    {"num_switch", "num_node_p_switch", "num_gpu_p_node", "num_cpu_p_node", "mem_p_node"}
)

GPU_MEMORY_MIB: Mapping[str, int] = {
    "P4": 7611,
    "T4": 15109,
    "V100M16": 16160,
    "P100": 16280,
    "A10": 22731,
    "V100M32": 32510,
    "A100": 81251,
    "G1": 10000,
    "G2": 20000,
    "G3": 30000,
}
"""Memory of a GPU by openb's name of its model, from FGD's simulator (``MapGpuTypeMemoryMiB`` in
https://github.com/hkust-adsl/kubernetes-scheduler-simulator, ``pkg/type/open-gpu-share/utils/const.go``). Alibaba does not disclose
the models G1 to G3; their sizes there are stand-ins."""

_FILE_ENDINGS = (".csv", ".json")


def read_nodes(text: str, levels: Sequence[str] = DEFAULT_LEVELS) -> tuple[Node, ...]:
    """Return the nodes of a file, or those that a text such as ``8x8`` describes.

    Args:
        text: names the file, or describes the nodes.
        levels: labels of racks and zones, from the widest level to the narrowest.

    Raises:
        InputError: the file cannot be read, or something in it is wrong.
        ValueError: there is no such file, and the text does not describe nodes.
    """
    path = Path(text.strip())
    if not path.is_file() and path.suffix not in _FILE_ENDINGS:
        return make_nodes(text, levels)
    nodes = _from_json(path, levels) if _is_json(path) else _from_csv(path, levels)
    if len({node.name for node in nodes}) < len(nodes):
        raise InputError(f"{path} lists a node twice")
    if not nodes:
        raise InputError(f"{path} lists no node with a GPU")
    return nodes


def nodes_of_records(
    items: list[Any], where: str, levels: Sequence[str], kubernetes_nodes: Sequence[Any] = ()
) -> tuple[Node, ...]:
    """Return the nodes with GPUs among GPUNodes.

    Args:
        items: GPUNodes as parsed JSON.
        where: the name of the file.
        levels: labels of racks and zones, from the widest level to the narrowest.
        kubernetes_nodes: Nodes as parsed JSON, for their labels.

    Raises:
        InputError: an item is not a GPUNode, or not a Node.
    """
    domains = _domains(kubernetes_nodes, where, levels)
    nodes = []
    for number, item in enumerate(items):
        try:
            node = str(item["metadata"]["name"])
            status = GPUNodeStatus.model_validate(item.get("status") or {})
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InputError(f"{where}: item {number} is not a GPUNode: {error}") from error
        gpus = tuple(
            GPU(
                gpu.uuid,
                node,
                gpu.index,
                gpu.model,
                gpu.memory_bytes,
                gpu.allocatable_bytes,
                gpu.allocatable_percent,
                numa_node=gpu.numa_node,
                nvlink_peers=frozenset(gpu.nvlink_peers),
                moved_seconds_per_gib=moved_seconds_per_gib(gpu),
            )
            for gpu in status.gpus
        )
        if gpus:
            nodes.append(Node(node, gpus, domains=domains.get(node, ())))
    return tuple(nodes)


def _domains(items: Sequence[Any], where: str, levels: Sequence[str]) -> dict[str, tuple[Domain, ...]]:
    """Return the racks and zones of Nodes by name."""
    found = {}
    for number, item in enumerate(items):
        try:
            found[str(item["metadata"]["name"])] = domains_of(item["metadata"].get("labels") or {}, levels)
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{where}: Node number {number} has no readable metadata: {error}") from error
    return found


def _is_json(path: Path) -> bool:
    try:
        with path.open(encoding="utf-8-sig") as file:
            return file.read(4096).lstrip().startswith("{")
    except OSError as error:
        raise InputError(f"cannot read the nodes {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file: {error}") from error


def _from_json(path: Path, levels: Sequence[str]) -> tuple[Node, ...]:
    value = read_json(path, "nodes")
    items = value.get("items", [value])
    if not isinstance(items, list):
        raise InputError(f"{path}: items is not a list: give the JSON of kubectl get gpunodes,nodes -o json")
    gpu_nodes: list[Any] = []
    kubernetes_nodes: list[Any] = []
    for item in items:
        is_node = isinstance(item, dict) and item.get("kind") == "Node"
        (kubernetes_nodes if is_node else gpu_nodes).append(item)
    return nodes_of_records(gpu_nodes, str(path), levels, kubernetes_nodes)


def _from_csv(path: Path, levels: Sequence[str]) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for line, row in headed_rows(path):
        try:
            if row.keys() == OPENB_COLUMNS:
                nodes += _openb_node(row)
            elif row.keys() == TIRESIAS_COLUMNS:
                nodes += _tiresias_nodes(row, len(nodes), levels)
            else:
                raise ValueError(
                    f"the columns are {', '.join(row)}: write sn,cpu_milli,memory_mib,gpu,model, or "
                    "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node, or give the JSON of "
                    "kubectl get gpunodes,nodes -o json"
                )
        except ValueError as error:
            raise InputError(f"{path}, line {line}: {error}") from error
    return tuple(nodes)


def _openb_node(row: Row) -> list[Node]:
    """Return the node of a line; none if it has no GPU."""
    node, count, model = name(row, "sn"), whole(row, "gpu"), row["model"]
    if count == 0:
        return []
    if model not in GPU_MEMORY_MIB:
        raise ValueError(f"model is {model!r}: write one of {', '.join(GPU_MEMORY_MIB)}")
    return [
        Node(
            node,
            make_gpus(node, count, model, GPU_MEMORY_MIB[model] * 2**20),
            host=HostResources.of({CPU: whole(row, "cpu_milli"), MEMORY: whole(row, "memory_mib") * 2**20}),
        )
    ]


def _tiresias_nodes(row: Row, before: int, levels: Sequence[str]) -> list[Node]:
    """Return the nodes of all switches of a line.

    Args:
        row: the line's fields.
        before: the number of nodes of the lines before it.
        levels: labels of racks and zones; the last one names the rack.
    """
    gpus, nodes_per_switch = whole(row, "num_gpu_p_node"), whole(row, "num_node_p_switch")
    host = HostResources.of(
        {CPU: whole(row, "num_cpu_p_node") * 1000, MEMORY: whole(row, "mem_p_node") * 10**9}
    )
    names = [f"n{before + index:04d}" for index in range(whole(row, "num_switch") * nodes_per_switch)]
    return [
        Node(
            node,
            make_gpus(node, gpus),
            domains=in_rack((before + index) // nodes_per_switch, levels),
            host=host,
        )
        for index, node in enumerate(names)
    ]
