"""The formats in which others publish traces. The lines are of our own making, in the documented formats."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from laneway.scheduling import Demand, Profile
from laneway.scheduling.model.snapshot import StageSeconds
from laneway.simulator import InputError, ReadOptions, TraceJob, TraceRead, load_trace, read_trace

MURI = (
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,"
    "resource_time_0,resource_time_1,resource_time_2,priority\n"
)
OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
    "scheduled_time\n"
)


def written(folder: Path, text: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_tiresias(tmp_path: Path) -> None:
    header = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
    path = written(tmp_path, header + "7,8,30,133,vgg11,147,23\n3,1,5,10,vgg16,12.5,20\n")
    assert load_trace(path) == TraceRead(
        (
            TraceJob("default/3", Demand(1), 5, 12.5, model="vgg16"),
            TraceJob("default/7", Demand(8), 30, 147, model="vgg11"),
        ),
        "tiresias",
        {},
    )


class TestMuri:
    LINE = "4,2,1500,1000,bert,4,260000,1500,200,10,150,30,1\n"

    def test_times_are_milliseconds_and_what_comes_before_the_gpu_is_half_storage_half_cpu(
        self, tmp_path: Path
    ) -> None:
        profile = Profile(0, 0, iteration_seconds=0.2, stages=StageSeconds(0.005, 0.005, 0.15, 0.03))
        assert load_trace(written(tmp_path, MURI + self.LINE)) == TraceRead(
            (TraceJob("default/4", Demand(2), 1.5, 260, profile=profile, model="bert"),), "muri", {}
        )

    def test_its_own_simulator_runs_the_iterations(self, tmp_path: Path) -> None:
        (job,) = read_trace(written(tmp_path, MURI + self.LINE), ReadOptions(durations="iterations"))
        assert job.duration_seconds == pytest.approx(1000 * 0.2 * 1.015)

    def test_a_wrong_field_is_named(self, tmp_path: Path) -> None:
        path = written(tmp_path, MURI + self.LINE.replace(",150,", ",much,"))
        with pytest.raises(InputError, match="line 2: resource_time_1 is 'much': write a number of millisec"):
            read_trace(path)


class TestPhilly:
    def test_the_csv(self, tmp_path: Path) -> None:
        path = written(
            tmp_path,
            "timestamp,duration,num_gpus,gpu_time,cluster\n"
            "2017-10-03 00:00:00,90.5,4,362,c1\n2017-10-02 23:59:00,5,1,5,c2\n2017-10-01 00:00:00,0,1,0,c2\n"
            "2017-10-01 00:00:00,5,0,0,c2\n",
        )
        assert load_trace(path) == TraceRead(
            (
                TraceJob("c2/line-0000003", Demand(1), 0, 5),
                TraceJob("c1/line-0000002", Demand(4), 60, 90.5),
            ),
            "philly-csv",
            {"it ran for no time": 1, "it uses no GPU": 1},
        )

    @staticmethod
    def attempt(start: str | None, end: str | None, *gpus: int) -> Mapping[str, object]:
        servers = [
            {"ip": f"m{index}", "gpus": [f"gpu{gpu}" for gpu in range(count)]}
            for index, count in enumerate(gpus)
        ]
        return {"start_time": start, "end_time": end, "detail": servers}

    @staticmethod
    def job(name: str, *attempts: Mapping[str, object], at: str = "2017-10-07 00:00:00") -> dict[str, object]:
        return {
            "status": "Pass",
            "vc": "v1",
            "jobid": name,
            "attempts": list(attempts),
            "submitted_time": at,
            "user": "u1",
        }

    def test_the_log_sums_the_attempts(self, tmp_path: Path) -> None:
        log = [
            self.job(
                "two",
                self.attempt("2017-10-07 01:00:00", "2017-10-07 01:00:30", 8, 2),
                self.attempt("None", "2017-10-07 01:10:00", 8, 2),
                self.attempt("2017-10-07 02:00:00", "2017-10-07 02:01:00", 8, 2),
            ),
            self.job("none"),
            self.job("goes on", self.attempt("2017-10-07 01:00:00", None, 1)),
            self.job("no time", self.attempt("2017-10-07 01:00:00", "2017-10-07 01:00:00", 1)),
            self.job("no gpu", self.attempt("2017-10-07 01:00:00", "2017-10-07 01:00:09")),
            self.job(
                "later",
                self.attempt("2017-10-08 01:00:00", "2017-10-08 01:00:07", 1),
                at="2017-10-07 00:00:05",
            ),
        ]
        for indent in (None, 4):
            assert load_trace(written(tmp_path, json.dumps(log, indent=indent))) == TraceRead(
                (
                    TraceJob("v1/two", Demand(10), 0, 90, user="u1"),
                    TraceJob("v1/later", Demand(1), 5, 7, user="u1"),
                ),
                "philly",
                {
                    "it never ran": 1,
                    "it was still running when the log ended": 1,
                    "it ran for no time": 1,
                    "it uses no GPU": 1,
                },
            )

    def test_a_log_longer_than_what_is_read_at_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from laneway.simulator.traces import json_list

        log = [
            self.job(f"j{index:03d}", self.attempt("2017-10-07 01:00:00", "2017-10-07 01:00:30", 1))
            for index in range(40)
        ]
        path = written(tmp_path, json.dumps(log, indent=1))
        whole = read_trace(path)
        assert len(whole) == 40
        for characters in (1, 7, 100, 1000):
            monkeypatch.setattr(json_list, "_CHUNK_CHARACTERS", characters)
            assert read_trace(path) == whole

    @pytest.mark.parametrize(
        ("story", "text", "says"),
        [
            ("no list of objects", "[1]", r"line 1: it is not a JSON list of jobs: write an object"),
            (
                "a list without end",
                '[\n{"attempts": []},\n',
                "line 3: .* write an object, .* and ] at the end",
            ),
            ("a broken object", '[{"attempts": []},\n{"attempts": }]', "line 2: .*Expecting value"),
            ("more than a list", '[{"attempts": []}] x', "line 1: .* remove what follows the list"),
            (
                "no attempts",
                '[\n\n{"jobid": "a"}]',
                "the job that begins on line 3: attempts is None: write a list",
            ),
            ("attempts of text", '[{"attempts": ["a"]}]', "'a' has no end_time: write an object"),
            (
                "no name",
                json.dumps([{**job("", attempt("2017-10-07 01:00:00", "2017-10-07 01:00:30", 1))}]),
                "jobid is '': write a name",
            ),
            (
                "no date",
                json.dumps([job("a", attempt("2017-10-07 01:00:00", "soon", 1))]),
                "end_time is 'soon': write a date and a time",
            ),
        ],
    )
    def test_a_wrong_log_is_told_where(self, tmp_path: Path, story: str, text: str, says: str) -> None:
        with pytest.raises(InputError, match=says):
            read_trace(written(tmp_path, text, "cluster_job_log"))


def test_helios(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
        "9,uA,vcX,16,64,2,FAILED,2020-04-01 00:00:10,2020-04-01 00:00:20,2020-04-01 00:01:20,60,10\n"
        "8,uB,vcY,0,64,2,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:20,2020-04-01 00:01:20,60,10\n"
        "7,uB,vcY,1,4,1,CANCELLED,2020-04-01 00:00:00,2020-04-01 00:00:20,2020-04-01 00:00:20,0,20\n",
    )
    assert load_trace(path) == TraceRead(
        (TraceJob("vcX/9", Demand(16), 0, 60, user="uA"),),
        "helios",
        {"it uses no GPU": 1, "it ran for no time": 1},
    )


class TestAlibaba:
    def test_openb_pods_use_whole_gpus_of_a_node_or_a_part_of_one(self, tmp_path: Path) -> None:
        path = written(
            tmp_path,
            OPENB
            + "whole,8000,1024,8,1000,V100M16|V100M32,LS,Running,100,250,150\n"
            + "part,8000,1024,1,465,,BE,Succeeded,110,120,110\n"
            + "waits,8000,1024,1,465,,BE,Pending,110,120,\n"
            + "fails,8000,1024,1,465,,BE,Failed,110,120,120\n"
            + "cpu,8000,1024,0,0,,BE,Running,90,120,90\n",
        )
        assert load_trace(path) == TraceRead(
            (
                TraceJob(
                    "default/whole",
                    Demand(1, gpus_per_worker=8, models=frozenset({"V100M16", "V100M32"})),
                    0,
                    100,
                ),
                TraceJob("default/part", Demand(1, share_percent=47), 10, 10),
            ),
            "openb",
            {"it never ran": 1, "it ran for no time": 1, "it uses no GPU": 1},
        )

    def test_openb_refuses_more_than_a_gpu_of_a_gpu(self, tmp_path: Path) -> None:
        path = written(tmp_path, OPENB + "a,1,1,1,1001,,LS,Running,0,9,1\n")
        with pytest.raises(InputError, match="line 2: gpu_milli is 1001: write 1 to 1000"):
            read_trace(path)

    TASKS = (
        "jobA,worker,3.0,Terminated,1000.0,1100.0,600.0,29.3,50.0,MISC\n"
        "jobA,ps,2.0,Terminated,1000.0,1100.0,600.0,29.3,,\n"
        "jobA,chief,1.0,Failed,1010.0,1100.0,600.0,29.3,250.0,V100\n"
        "jobB,worker,1.0,Running,900.0,,600.0,29.3,100.0,T4\n"
        "jobC,worker,1.0,Waiting,,,600.0,29.3,100.0,T4\n"
        "jobD,worker,1.0,Terminated,900.0,900.0,600.0,29.3,100.0,T4\n"
    )
    LEFT_OUT: Mapping[str, int] = {
        "it uses no GPU": 1,
        "it was still running when the log ended": 1,
        "it never ran": 1,
        "it ran for no time": 1,
    }

    @pytest.mark.parametrize(
        "header",
        [
            "",
            "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n",
        ],
    )
    def test_pai_tasks_are_gangs_of_instances(self, tmp_path: Path, header: str) -> None:
        assert load_trace(written(tmp_path, header + self.TASKS)) == TraceRead(
            (
                TraceJob("default/jobA.worker", Demand(3, share_percent=50), 0, 100),
                TraceJob("default/jobA.chief", Demand(1, gpus_per_worker=3), 10, 90),
            ),
            "pai",
            self.LEFT_OUT,
        )

    def test_pai_knows_users_and_submissions_from_the_table_of_jobs(self, tmp_path: Path) -> None:
        written(tmp_path, "jobA,inst1,ann,Terminated,940.0,1100.0\n", "pai_job_table.csv")
        read = load_trace(written(tmp_path, self.TASKS, "pai_task_table.csv"))
        assert [(job.user, job.submit_seconds) for job in read.jobs] == [("ann", 0), ("ann", 0)]

    @pytest.mark.parametrize(
        ("table", "line", "says"),
        [
            (
                "pai_task_table.csv",
                "jobE,w,1.5,Terminated,1.0,2.0,6.0,2.0,50.0,T4",
                "inst_num is 1.5: write a who",
            ),
            (
                "pai_task_table.csv",
                "jobE,w,1.0,Terminated,1.0,2.0,6.0,2.0,half,T4",
                "plan_gpu is 'half': write a",
            ),
            ("pai_job_table.csv", "jobE,i,ann,Terminated,soon,2.0", "start_time is 'soon': write a number"),
        ],
    )
    def test_a_wrong_table_of_pai_is_told_where(
        self, tmp_path: Path, table: str, line: str, says: str
    ) -> None:
        path = written(tmp_path, self.TASKS, "pai_task_table.csv")
        with (tmp_path / table).open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        with pytest.raises(InputError, match=rf"{table}, line \d: {says}"):
            read_trace(path)


class TestGavel:
    LINE = "LM (batch size 5)\tpython main.py --cuda\tlanguage\t--steps\t1\t3000\t2\t1\t-1.000000\t40\n"
    THROUGHPUTS = json.dumps(
        {
            "v100": {"('LM (batch size 5)', 2)": {"null": 30.0, "('LM (batch size 5)', 1)": [9.0, 9.0]}},
            "k80": {"('LM (batch size 5)', 2)": {"null": 10.0}},
        }
    )

    @pytest.mark.parametrize(
        "place",
        [
            "real/real_throughputs.json",
            "real_throughputs.json",
            "real/x_throughputs.json",
            "y_throughputs.json",
        ],
    )
    def test_steps_become_seconds_by_the_throughputs_that_lie_there(self, tmp_path: Path, place: str) -> None:
        written(tmp_path, self.THROUGHPUTS, place)
        path = written(tmp_path, self.LINE, "real/a.trace")
        job = TraceJob("default/line-0000001", Demand(2), 40, 100, model="LM (batch size 5)")
        assert load_trace(path) == TraceRead((job,), "gavel", {})

    def test_another_type_of_gpu_and_another_file(self, tmp_path: Path) -> None:
        throughputs = written(tmp_path, self.THROUGHPUTS, "elsewhere.json")
        path = written(tmp_path, self.LINE, "real/a.trace")
        options = ReadOptions(gpu_type="k80", throughputs=throughputs)
        assert [job.duration_seconds for job in read_trace(path, options)] == [300]

    @pytest.mark.parametrize(
        ("story", "files", "options", "says"),
        [
            ("nowhere", [], {}, "put real_throughputs.json beside it, or choose a file"),
            (
                "two",
                ["a_throughputs.json", "b_throughputs.json"],
                {},
                "which of a_throughputs.json, b_throughputs.json are its throughputs",
            ),
            (
                "no such type",
                ["real_throughputs.json"],
                {"gpu_type": "h100"},
                "no GPU type 'h100': choose one of k",
            ),
        ],
    )
    def test_missing_or_ambiguous_throughputs_are_refused(
        self, tmp_path: Path, story: str, files: list[str], options: Mapping[str, str], says: str
    ) -> None:
        for name in files:
            written(tmp_path, self.THROUGHPUTS, name)
        path = written(tmp_path, self.LINE, "real/a.trace")
        with pytest.raises(InputError, match=says):
            read_trace(path, ReadOptions(**options))  # type: ignore[arg-type]

    def test_a_job_that_nobody_measured(self, tmp_path: Path) -> None:
        written(tmp_path, self.THROUGHPUTS, "real_throughputs.json")
        path = written(tmp_path, self.LINE + self.LINE.replace("\t2\t", "\t4\t"), "real/a.trace")
        with pytest.raises(
            InputError, match=r"line 2: job_type is 'LM \(batch size 5\)' on 4 GPUs, which has no throughput"
        ):
            read_trace(path)

    @pytest.mark.parametrize(
        ("content", "says"),
        [
            ("[1, 2", "is not valid JSON"),
            ("[1, 2]", "is not a file of throughputs: write"),
            ('{"v100": {"x": 1}}', "is not a file of throughputs: write"),
            ('{"v100": {"x": {"y": 1}}}', "a job type on v100 has no throughput alone"),
        ],
    )
    def test_a_file_that_holds_no_throughputs(self, tmp_path: Path, content: str, says: str) -> None:
        written(tmp_path, content, "real_throughputs.json")
        path = written(tmp_path, self.LINE, "real/a.trace")
        with pytest.raises(InputError, match=f"real_throughputs.json:? {says}"):
            read_trace(path)


class TestSynergy:
    def test_iterations_become_seconds_by_the_models_time(self, tmp_path: Path) -> None:
        path = written(tmp_path, "0,res18,0.0,100,1\n1,gnmt,8,1000,4\n", "trace")
        read = load_trace(path)
        assert read.format == "synergy"
        assert [(job.key, job.model, job.submit_seconds, job.demand) for job in read.jobs] == [
            ("default/0", "res18", 0.0, Demand(1)),
            ("default/1", "gnmt", 8.0, Demand(4)),
        ]
        assert [job.duration_seconds for job in read.jobs] == pytest.approx([64, 120])

    def test_a_model_that_nobody_measured(self, tmp_path: Path) -> None:
        path = written(tmp_path, "0,res18,0.0,100,1\n1,other,8,1000,4\n", "trace")
        with pytest.raises(InputError, match="line 2: model is 'other', which was not measured"):
            read_trace(path)
