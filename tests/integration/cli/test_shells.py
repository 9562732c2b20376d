"""Completion in shells, and commands in workers: each in a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from laneway.cli.main import main

from tests.support.fake_api_server import Answer, FakeAPIServer, a_kubeconfig

LANEWAY = str(Path(sys.executable).with_name("laneway"))


PROGRAMS = {
    "bash": """
eval "$(laneway completion bash)"
COMP_LINE="$1" COMP_POINT=${#1} COMP_TYPE=9 COMP_WORDS=($1) COMP_CWORD=1
function_name=$(complete -p laneway | sed 's/.*-F \\([^ ]*\\).*/\\1/')
"$function_name" laneway
printf '%s\n' "${COMPREPLY[@]}"
""",
    "zsh": """
eval "$(laneway completion zsh)"
BUFFER="$1" CURSOR=${#1} words=(${=1})
_describe() { for each in "${(P@)2}"; do print -r -- "${each%%:*}"; done }
${_comps[laneway]}
""",
    "fish": """
laneway completion fish | source
complete -C "$argv[1]" | string match -r '^[^\\t]*'
""",
}
"""What each shell offers after the words of its first argument, by the script that ``completion`` prints."""

SHELLS = [shell for shell in PROGRAMS if shutil.which(shell)]


def completed(shell: str, words: str, tmp_path: Path) -> list[str]:
    script = tmp_path / f"complete.{shell}"
    script.write_text(PROGRAMS[shell], encoding="utf-8")
    path = os.pathsep.join((str(Path(LANEWAY).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path)}
    command = [shell, *(["-f"] if shell == "zsh" else []), str(script), words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert done.stderr == ""
    return sorted(done.stdout.split())


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("words", "want"),
    [
        ("laneway su", ["submit", "suspend"]),
        ("laneway -n x que", ["queue"]),
        ("laneway list --sel", ["--selector"]),
        ("laneway top --wa", ["--watch"]),
        ("laneway queue -o ", ["json", "name", "wide", "yaml"]),
        ("laneway convert --to Train", ["TrainJob", "TrainingJob"]),
    ],
)
def test_verbs_flags_and_values_are_completed(
    shell: str, words: str, want: list[str], tmp_path: Path
) -> None:
    assert completed(shell, words, tmp_path) == want


@pytest.mark.parametrize("shell", SHELLS)
def test_names_of_jobs_are_completed(shell: str, tmp_path: Path) -> None:
    asked = []

    def jobs(path: str) -> Answer:
        asked.append(path)
        items = [{"metadata": {"name": name}} for name in ("bert-1", "bert-2", "digits")]
        return 200, json.dumps({"kind": "List", "items": items}).encode()

    with FakeAPIServer(jobs) as server:
        kubeconfig = tmp_path / "config"
        kubeconfig.write_text(json.dumps(a_kubeconfig(server.address)), encoding="utf-8")
        words = f"laneway --kubeconfig {kubeconfig} -n team logs be"
        assert completed(shell, words, tmp_path) == ["bert-1", "bert-2"]
    assert asked == ["/apis/laneway.dev/v1alpha1/namespaces/team/trainingjobs"]


def written_to(output: int, words: list[str], tmp_path: Path) -> tuple[int, str]:
    """The exit code and the errors of a command in a cluster without objects, whose output fits into Python's buffer."""
    listed = json.dumps({"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}).encode()
    with FakeAPIServer(lambda path: (200, listed)) as server:
        kubeconfig = tmp_path / "config"
        kubeconfig.write_text(json.dumps(a_kubeconfig(server.address)), encoding="utf-8")
        done = subprocess.run(
            [LANEWAY, "--kubeconfig", str(kubeconfig), *words],
            check=False,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        )
    os.close(output)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "words", [["queue"], ["queue", "-w"], ["queue", "-o", "yaml"], ["top", "-w"], ["top"]]
)
def test_a_reader_may_close_the_pipe(words: list[str], tmp_path: Path) -> None:
    """As `head` does after its lines."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    assert written_to(write_end, words, tmp_path) == (0, "")


@pytest.mark.parametrize("words", [["queue"], ["top", "-w"]])
def test_a_full_disk_is_said(words: list[str], tmp_path: Path) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    assert written_to(full, words, tmp_path) == (1, "laneway: [Errno 28] No space left on device\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_it_can_read(
    shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["completion", shell]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out, encoding="utf-8")
    assert "laneway" in script.read_text(encoding="utf-8")
    if program := shutil.which(shell):
        subprocess.run([program, "-n", script], check=True)


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["su"], ["submit", "suspend"]),
        (["list", "--all"], ["--all-namespaces"]),
        (["-n", "a b", "que"], ["queue"]),
    ],
)
def test_kubectl_completes(words: list[str], want: list[str]) -> None:
    program = Path(LANEWAY).with_name("kubectl_complete-laneway")
    done = subprocess.run([program, *words], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [*want, ":4"]


@pytest.mark.parametrize(
    ("words", "want"),
    [
        ([], ["--context=c"]),
        (["--context", "second"], ["--context=second"]),
        (["--kubeconfig=~/b"], ["--kubeconfig={home}/b", "--context=second"]),
    ],
)
def test_exec_hands_the_chosen_cluster_to_kubectl(words: list[str], want: list[str], tmp_path: Path) -> None:
    """KUBECONFIG names two files, each with a current context."""
    pod = {"kind": "Pod", "spec": {"containers": [{"name": "trainer"}]}}
    with FakeAPIServer(lambda path: (200, json.dumps(pod).encode())) as server:
        for name, context in (("a", "c"), ("b", "second")):
            text = json.dumps(a_kubeconfig(server.address)).replace('"c"', f'"{context}"')
            (tmp_path / name).write_text(text, encoding="utf-8")
        kubectl = tmp_path / "kubectl"
        kubectl.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
        kubectl.chmod(0o755)
        environment = {
            "PATH": str(tmp_path),
            "HOME": str(tmp_path),
            "KUBECONFIG": f"{tmp_path}/a:{tmp_path}/b",
        }
        done = subprocess.run(
            [LANEWAY, *words, "exec", "digits", "--", "ls"],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
        )
    cluster = done.stdout.partition("exec\n")[0].splitlines()
    assert cluster == [word.format(home=tmp_path) for word in want]


def test_exec_says_that_it_needs_kubectl(tmp_path: Path) -> None:
    done = subprocess.run(
        [LANEWAY, "exec", "digits", "--", "ls"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": str(tmp_path), "KUBECONFIG": str(tmp_path / "none")},
    )
    assert done.returncode == 1
    assert done.stderr == "laneway: exec needs kubectl, and the PATH has none\n"
