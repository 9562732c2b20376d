"""Clusters that others published as files.

Alibaba's "openb" nodes: ``sn,cpu_milli,memory_mib,gpu,model``, a node a line; ``openb_node_list_*.csv`` of its GPU trace 2023
(https://github.com/alibaba/clusterdata). Nodes without GPUs are left out: no job of ours can run there.

Tiresias' and Muri's clusters: ``num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node``, one line; the nodes of a
switch are a rack, ``mem_p_node`` is host memory in GB (https://github.com/SymbioticLab/Tiresias, ``simulator/run_sim.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from laneway.scheduling import Node
from laneway.simulator.cluster import DEFAULT_MEMORY_BYTES, DEFAULT_MODEL, Sharing, make_gpus
from laneway.simulator.trace import TraceError
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
"""Memory of a GPU by openb's name of its model, as FGD's simulator has it (``MapGpuTypeMemoryMiB`` in
https://github.com/hkust-adsl/kubernetes-scheduler-simulator, ``pkg/type/open-gpu-share/utils/const.go``). G1 to G3 are Alibaba's own names
for models that it does not disclose; their sizes there are stand-ins."""


def read_nodes(path: Path, sharing: Sharing | None = None) -> tuple[Node, ...]:
    """Return the nodes that a file lists.

    Raises:
        TraceError: the file cannot be read, is of neither format, or a line is wrong; says where and what to write.
    """
    sharing = sharing or Sharing()
    rows = list(headed_rows(path))
    if not rows:
        raise TraceError(f"{path} lists no nodes")
    columns = frozenset(rows[0][1])
    nodes: list[Node] = []
    for line, row in rows:
        try:
            if columns == OPENB_COLUMNS:
                nodes += _openb(row, sharing)
            elif columns == TIRESIAS_COLUMNS:
                nodes += _tiresias(row, len(nodes), sharing)
            else:
                raise ValueError(
                    f"the columns are {', '.join(sorted(columns))}: write sn,cpu_milli,memory_mib,gpu,model or "
                    "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node"
                )
        except ValueError as error:
            raise TraceError(f"{path}, line {line}: {error}") from error
    if len({node.name for node in nodes}) < len(nodes):
        raise TraceError(f"{path} lists a node twice")
    if not nodes:
        raise TraceError(f"{path} lists no node with a GPU")
    return tuple(nodes)


def _openb(row: Row, sharing: Sharing) -> list[Node]:
    node, count, model = name(row, "sn"), whole(row, "gpu"), row["model"]
    if count == 0:
        return []
    if model not in GPU_MEMORY_MIB:
        raise ValueError(f"model is {model!r}: write one of {', '.join(GPU_MEMORY_MIB)}")
    return [
        Node(
            node,
            make_gpus(node, count, model, GPU_MEMORY_MIB[model] * 2**20, sharing),
            cpu_millis=whole(row, "cpu_milli"),
            memory_bytes=whole(row, "memory_mib") * 2**20,
        )
    ]


def _tiresias(row: Row, before: int, sharing: Sharing) -> list[Node]:
    """Return the nodes of all switches of a line.

    Args:
        row: the line's fields.
        before: how many nodes the lines before it made.
        sharing: how the GPUs are shared.
    """
    gpus, of_a_switch = whole(row, "num_gpu_p_node"), whole(row, "num_node_p_switch")
    names = [f"n{before + index:04d}" for index in range(whole(row, "num_switch") * of_a_switch)]
    return [
        Node(
            node,
            make_gpus(node, gpus, DEFAULT_MODEL, DEFAULT_MEMORY_BYTES, sharing),
            rack=f"r{(before + index) // of_a_switch:03d}",
            cpu_millis=whole(row, "num_cpu_p_node") * 1000,
            memory_bytes=whole(row, "mem_p_node") * 10**9,
        )
        for index, node in enumerate(names)
    ]
