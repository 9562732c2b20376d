"""The client's figures of a process's memory, compared with all of Python's objects and the C library's
figures."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.client.jobs import Job, end_of
from tests.support.node_agent.node import Node

MakeNode = Callable[..., Node]
Run = Callable[..., Job]

MIB = 1 << 20
NOT_ALLOCATED_BY_MALLOC = ("shared", "freed_all")
NOT_KNOWN_TO_PYTHON = ("kept_for_a_backward_pass",)


def test_memory_is_counted_however_it_is_allocated_or_freed(make_node: MakeNode, run: Run) -> None:
    lines = run("memory_truth.py", "ways", container=make_node().container("job", 50)).results()
    assert len(lines) == 13
    for line in lines:
        what = line["what"]
        counted = line["after"]["client"] - line["before"]["client"]
        assert abs(counted) > 15 * MIB, line
        if what not in NOT_ALLOCATED_BY_MALLOC:
            assert counted == pytest.approx(line["after"]["malloc"] - line["before"]["malloc"], rel=0.05), (
                line
            )
        if what not in NOT_KNOWN_TO_PYTHON:
            assert counted == pytest.approx(line["after"]["objects"] - line["before"]["objects"], rel=0.05), (
                line
            )
    end = lines[-1]["after"]
    assert end["client"] == pytest.approx(end["objects"], rel=0.05)


def test_changes_in_untraced_iterations_are_found(make_node: MakeNode, run: Run) -> None:
    node = make_node()
    grew, shrank = run("memory_truth.py", "unwatched", container=node.container("job", 50)).results()
    for line in (grew, shrank):
        assert line["after"]["client"] == pytest.approx(line["after"]["objects"], rel=0.05), line
    assert end_of(node, "job")["sizes"]["persistent_bytes"] == pytest.approx(
        grew["after"]["client"], rel=0.06
    )


def test_compiled_code_is_still_compiled_and_measured(make_node: MakeNode, run: Run) -> None:
    node = make_node()
    (line,) = run("memory_truth.py", "compiled", container=node.container("job", 50)).results()
    assert line["compiled_frames"] > 0
    assert line["after"]["client"] > line["kept"]
    assert line["after"]["client"] == pytest.approx(line["after"]["objects"], rel=0.05)
    assert end_of(node, "job")["sizes"]["persistent_bytes"] == pytest.approx(
        line["after"]["client"], rel=0.05
    )
