"""Trace files: recognized formats, skipped jobs, and error messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from laneway.scheduling import Demand
from laneway.simulator import InputError, ReadOptions, TraceJob, TraceRead, load_trace, read_trace

TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
NATIVE = "job,submit_seconds,duration_seconds"
HELIOS = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "trace.csv"
    path.write_text(text, encoding="utf-8")
    return path


def a_helios_job(number: int, submitted: str, *, gpus: int = 1, duration: str = "60") -> str:
    return f"{number},uA,vcB,{gpus},4,1,COMPLETED,{submitted},{submitted},{submitted},{duration},0\n"


def test_jobs_come_in_order_of_submission(tmp_path: Path) -> None:
    path = written(tmp_path, f"{NATIVE}\nlate,9,1\nearly,2,1\nb,5,1\na,5,1\n")
    assert [job.key for job in read_trace(path)] == [
        "default/early",
        "default/a",
        "default/b",
        "default/late",
    ]


def test_a_limit_keeps_the_first_by_submission_and_counts_the_others(tmp_path: Path) -> None:
    path = written(tmp_path, f"{NATIVE}\nlate,9,1\nearly,2,1\nb,5,1\na,5,1\n")
    assert load_trace(path, ReadOptions(limit=2)) == TraceRead(
        (TraceJob("default/early", Demand(), 2, 1), TraceJob("default/a", Demand(), 5, 1)),
        "laneway",
        {"it comes after the first 2": 2},
    )
    assert load_trace(path, ReadOptions(limit=4)).skipped == {}


def test_the_clock_of_a_log_begins_with_the_first_job_that_is_kept(tmp_path: Path) -> None:
    lines = [
        a_helios_job(1, "2020-06-09 00:00:00", gpus=0),
        a_helios_job(3, "2020-06-10 00:01:00"),
        a_helios_job(2, "2020-06-10 00:00:00"),
    ]
    read = load_trace(written(tmp_path, HELIOS + "".join(lines)))
    assert [(job.key, job.submit_seconds) for job in read.jobs] == [("vcB/2", 0), ("vcB/3", 60)]
    assert read.summary() == "2 jobs (helios); skipped: 1 (it uses no GPU)"


def test_a_log_that_lists_a_job_twice_counts_it_once(tmp_path: Path) -> None:
    line = a_helios_job(1, "2020-06-10 00:00:00")
    read = load_trace(written(tmp_path, HELIOS + line + line))
    assert len(read.jobs) == 1
    assert read.skipped == {"it is listed again": 1}


def test_byte_order_marks_and_blank_lines_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes(f"\ufeff{NATIVE}\r\n\r\na,0,1\r\n\r\n".encode())
    assert read_trace(path) == (TraceJob("default/a", Demand(), 0, 1),)


@pytest.mark.parametrize(
    ("story", "text", "says"),
    [
        (
            "nothing",
            "",
            "is empty or begins with an empty line: write a header such as job,submit_seconds,duration_seconds,workers, and a line",
        ),
        (
            "a required column with another name",
            "job,submit_seconds,duration\na,0,1\n",
            "lacks the required columns duration_seconds of the format laneway; its header is 'job,submit_seconds,duration'",
        ),
        (
            "another program's columns",
            "time,cpu\n1,2\n",
            r"begins with 'time,cpu', which is not a known format; the formats are:\n  laneway: columns duration_s",
        ),
        (
            "a column too many",
            f"{NATIVE},color\na,0,1,red\n",
            "has columns that the format laneway does not have: color; remove them, or write one of checkpoint_seconds, cpu_seconds",
        ),
        ("no jobs", f"{NATIVE}\n", "has no jobs to simulate: write a line for each job"),
        (
            "only jobs that are skipped",
            HELIOS + a_helios_job(1, "2020-06-10 00:00:00", gpus=0),
            r"has no jobs to simulate: skipped are 1 \(it uses no GPU\)",
        ),
        ("a short line", f"{NATIVE}\na,0\n", "line 2: its number of fields differs from the header"),
        ("a long line", f"{NATIVE}\na,0,1,2\n", "line 2: its number of fields differs from the header"),
        (
            "a word for a number",
            f"{NATIVE}\na,0,1\nb,0,x\n",
            "line 3: duration_seconds is 'x': write a number",
        ),
        ("no end", f"{NATIVE}\na,0,inf\n", "duration_seconds is 'inf'"),
        ("no duration", f"{NATIVE}\na,0,0\n", "duration_seconds of job default/a is 0.0: write more than 0"),
        ("before the beginning", f"{NATIVE}\na,-1,1\n", "submit_seconds of job default/a is -1.0"),
        ("no name", f"{NATIVE}\n,0,1\n", "line 2: job is empty: write its name"),
        (
            "the same job twice",
            f"{NATIVE}\na,0,1\na,1,1\n",
            "lists the job default/a twice: write a name of its own for each job",
        ),
        ("part of a GPU", TIRESIAS + "1,0.5,0,1,m,1,1\n", "line 2: num_gpu is '0.5': write a whole number"),
        ("no GPU", TIRESIAS + "1,0,0,1,m,1,1\n", "line 2: workers is 0"),
        ("no date", HELIOS + a_helios_job(1, "today"), "submit_time is 'today': write a date and a time"),
        ("a quote that never ends", f'{NATIVE}\n"a,0,1\n', "is not a CSV file"),
    ],
)
def test_an_error_in_a_file_names_the_line_and_what_to_write(
    tmp_path: Path, story: str, text: str, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        read_trace(written(tmp_path, text))


def test_missing_and_binary_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the trace"):
        read_trace(tmp_path / "nowhere.csv")
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not a text file"):
        read_trace(binary)


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="limit is 0: write 1 or more"):
        ReadOptions(limit=0)
    with pytest.raises(ValueError, match="durations is 'guess': write column or iterations"):
        ReadOptions(durations="guess")
