"""The client notices what a script saves and loads, with real PyTorch, and the agent hears of it."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.client.jobs import Job, end_of
from tests.support.node_agent.node import Node

COUNTED = {"state dict", "nested", "to a file", "whole module", "imported before", "distributed", "slow"}


def test_complete_checkpoints_are_noticed_and_a_later_run_that_loads_one_resumes(
    make_node: Callable[..., Node], run: Callable[..., Job]
) -> None:
    node = make_node()
    first = run("checkpoints.py", container=node.container("first", 50))
    *kinds, end = first.results()
    assert {each["kind"] for each in kinds if each["counted"]} == COUNTED
    assert not any(each["late"] for each in kinds), "work counts as saved up to the start of a save"
    saved = end_of(node, "first")["saved_work"]
    assert saved["checkpointed"]
    assert saved["loaded_from_seconds"] is None
    assert end["began"] <= saved["unsaved_since_seconds"] <= end["ended"]

    again = run("checkpoints.py", "resume", work=first.work, container=node.container("again", 50))
    (loaded,) = again.results()
    resumed = end_of(node, "again")["saved_work"]
    assert not resumed["checkpointed"]
    assert resumed["loaded_from_seconds"] == loaded["loaded"]
    assert resumed["unsaved_since_seconds"] > saved["unsaved_since_seconds"], "since it began to train"
