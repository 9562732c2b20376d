"""The cluster that a trace runs on, from a file.

Two forms: the JSON of ``kubectl get gpunodes -o json``, which is what a node says of its GPUs; and the CSV of Alibaba's node lists
(``sn,cpu_milli,memory_mib,gpu,model``), of which nodes without a GPU are left out.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from laneway.api import quota
from laneway.api.gpu_node import GPUNodeStatus
from laneway.scheduling import GPU, Node
from laneway.simulator.cluster import DEFAULT_MEMORY_BYTES, RESERVE_BYTES, make_nodes

OPENB_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_MEBIBYTE = 2**20


class NodesError(ValueError):
    """A file of nodes that cannot be read; the message names it and says what to write."""


def read_nodes(text: str) -> tuple[Node, ...]:
    """Return the nodes of a file, or those that a text such as ``8x8`` describes.

    Raises:
        NodesError: there is such a file, and it cannot be read.
        ValueError: there is none, and the text describes no nodes.
    """
    path = Path(text)
    return _from_file(path) if path.is_file() else make_nodes(text)


def nodes_of_records(items: list[Any], where: str) -> tuple[Node, ...]:
    """Return the nodes that GPUNodes describe, as JSON's own types.

    Raises:
        NodesError: one of them is no GPUNode, or none has a GPU.
    """
    nodes = []
    for number, item in enumerate(items):
        try:
            name = str(item["metadata"]["name"])
            status = GPUNodeStatus.model_validate(item.get("status") or {})
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise NodesError(f"{where}: item {number} is no GPUNode: {error}") from error
        gpus = tuple(
            GPU(
                gpu.uuid,
                name,
                gpu.index,
                gpu.model,
                gpu.memory_bytes,
                gpu.allocatable_bytes,
                gpu.allocatable_percent,
                numa_node=gpu.numa_node,
                nvlink_peers=frozenset(gpu.nvlink_peers),
            )
            for gpu in status.gpus
        )
        if gpus:
            nodes.append(Node(name, gpus))
    if not nodes:
        raise NodesError(f"{where} has no node with a GPU")
    return tuple(nodes)


def _from_file(path: Path) -> tuple[Node, ...]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise NodesError(f"cannot read the nodes {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise NodesError(f"{path} is no text file: {error}") from error
    if text.lstrip().startswith("{"):
        return nodes_of_records(_items(text, path), str(path))
    if text.startswith(",".join(OPENB_COLUMNS)):
        nodes = tuple(_openb_nodes(text, path))
        if nodes:
            return nodes
        raise NodesError(f"{path} has no node with a GPU")
    raise NodesError(
        f"{path} is no file of nodes: give the JSON of kubectl get gpunodes -o json, a CSV with the columns "
        f"{','.join(OPENB_COLUMNS)}, or instead of a file a text such as 8x8"
    )


def _items(text: str, path: Path) -> list[Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise NodesError(f"{path} is no JSON: {error}") from error
    items = value.get("items", [value])
    if not isinstance(items, list):
        raise NodesError(f"{path}: items is no list: give the JSON of kubectl get gpunodes -o json")
    return items


def _openb_nodes(text: str, path: Path) -> Iterator[Node]:
    for number, row in enumerate(csv.DictReader(text.splitlines()), start=2):
        try:
            name, model, count = str(row["sn"]), str(row["model"]), int(row["gpu"])
            cpu_millis, memory_bytes = int(row["cpu_milli"]), int(row["memory_mib"]) * _MEBIBYTE
        except (TypeError, ValueError) as error:
            raise NodesError(f"{path} line {number}: {error}") from error
        if count:
            allocatable_bytes = quota.allocatable_bytes(DEFAULT_MEMORY_BYTES, RESERVE_BYTES)
            gpus = tuple(
                GPU(f"{name}-{index}", name, index, model, DEFAULT_MEMORY_BYTES, allocatable_bytes)
                for index in range(count)
            )
            yield Node(name, gpus, cpu_millis=cpu_millis, memory_bytes=memory_bytes)
