"""Trace files: the two formats, and what a wrong line is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from laneway.scheduling import Demand, PlacementMode, Profile
from laneway.simulator import TraceError, TraceJob, make_nodes, read_trace

TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
NATIVE = "job,submit_seconds,duration_seconds"


def written(folder: Path, text: str) -> Path:
    path = folder / "trace.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_csv_of_tiresias(tmp_path: Path) -> None:
    path = written(tmp_path, TIRESIAS + "7,8,30,133,vgg11,147,23\n3,1,5,10,vgg16,12.5,20\n")
    assert read_trace(path) == (
        TraceJob("default/3", Demand(1), 5, 12.5),
        TraceJob("default/7", Demand(8), 30, 147),
    )


def test_laneways_own_format_with_everything(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        f"{NATIVE},workers,gpus_per_worker,share_percent,memory_bytes,models,exclusive,placement,priority,"
        "persistent_bytes,ephemeral_bytes\n"
        "team/a,0,10,2,,50,,A100|H100,false,Spread,5,100,200\n"
        "b,1,10,,4,,,,true,,,,\n"
        "c,2,10,,,,1024,,,,,,\n",
    )
    assert read_trace(path) == (
        TraceJob(
            "team/a",
            Demand(2, share_percent=50, models=frozenset({"A100", "H100"}), mode=PlacementMode.SPREAD),
            0,
            10,
            priority=5,
            profile=Profile(100, 200),
        ),
        TraceJob("default/b", Demand(1, gpus_per_worker=4, exclusive=True), 1, 10),
        TraceJob("default/c", Demand(1, memory_bytes=1024), 2, 10),
    )


def test_laneways_own_format_with_only_what_it_needs(tmp_path: Path) -> None:
    assert read_trace(written(tmp_path, f"{NATIVE}\na,0,1\n")) == (TraceJob("default/a", Demand(), 0, 1),)


@pytest.mark.parametrize(
    ("story", "text", "says"),
    [
        ("no header", "", r"has the columns \(none\), which is no known format \(laneway: duration_seconds"),
        (
            "another program's columns",
            "time,cpu\n1,2\n",
            "has the columns time, cpu, which is no known format",
        ),
        ("a column too many", f"{NATIVE},color\na,0,1,red\n", "no known format"),
        ("no jobs", f"{NATIVE}\n", "has a header and no jobs"),
        ("a short line", f"{NATIVE}\na,0\n", "line 2: it has not as many fields"),
        ("a long line", f"{NATIVE}\na,0,1,2\n", "line 2: it has not as many fields"),
        (
            "a word for a number",
            f"{NATIVE}\na,0,1\nb,0,x\n",
            "line 3: duration_seconds is 'x': write a number",
        ),
        ("no end", f"{NATIVE}\na,0,inf\n", "duration_seconds is 'inf'"),
        ("no duration", f"{NATIVE}\na,0,0\n", "duration_seconds of job default/a is 0.0: write more than 0"),
        ("before the beginning", f"{NATIVE}\na,-1,1\n", "submit_seconds of job default/a is -1.0"),
        ("no name", f"{NATIVE}\n,0,1\n", "job is empty"),
        ("the same job twice", f"{NATIVE}\na,0,1\na,1,1\n", "lists the job default/a twice"),
        ("part of a GPU", TIRESIAS + "1,0.5,0,1,m,1,1\n", "line 2: num_gpu is '0.5': write a whole number"),
        ("no GPU", TIRESIAS + "1,0,0,1,m,1,1\n", "workers is 0"),
        (
            "another mode",
            f"{NATIVE},placement\na,0,1,Near\n",
            "placement is 'Near': write one of Auto, Consolidate",
        ),
        ("yes for true", f"{NATIVE},exclusive\na,0,1,yes\n", "exclusive is 'yes': write true or false"),
        (
            "half a profile",
            f"{NATIVE},persistent_bytes,ephemeral_bytes\na,0,1,5,\n",
            "persistent_bytes stands alone",
        ),
    ],
)
def test_a_wrong_file_is_told_where_and_what_to_write(
    tmp_path: Path, story: str, text: str, says: str
) -> None:
    with pytest.raises(TraceError, match=says):
        read_trace(written(tmp_path, text))


def test_a_file_that_is_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot read the trace"):
        read_trace(tmp_path / "nowhere.csv")
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceError, match="is no CSV file"):
        read_trace(binary)


def test_nodes_are_described_in_short() -> None:
    nodes = make_nodes("2x4, 1x8:H200:141")
    assert [(node.name, len(node.gpus)) for node in nodes] == [("n0000", 4), ("n0001", 4), ("n0002", 8)]
    assert nodes[2].gpus[0].model == "H200"
    assert nodes[2].gpus[0].memory_bytes == 141 * 2**30
    assert nodes[2].gpus[0].allocatable_bytes < nodes[2].gpus[0].memory_bytes


@pytest.mark.parametrize("text", ["", "8", "0x4", "4x0", "4x4:", "4x4,,2x2", "axb"])
def test_nodes_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="does not describe nodes: write <nodes>x<GPUs of each>"):
        make_nodes(text)
