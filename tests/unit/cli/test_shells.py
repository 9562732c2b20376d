"""Completion in shells, and commands in workers: each in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from laneway.cli.main import main

LANEWAY = str(Path(sys.executable).with_name("laneway"))


def completed(words: str, tmp_path: Path) -> list[str]:
    """What bash offers after these words, by the script that ``completion bash`` prints."""
    script = tmp_path / "complete.bash"
    script.write_text(
        f"""
eval "$({LANEWAY} completion bash)"
COMP_LINE='{words}' COMP_POINT={len(words)} COMP_TYPE=9 COMP_WORDS=({words}) COMP_CWORD=1
function_name=$(complete -p laneway | sed 's/.*-F \\([^ ]*\\).*/\\1/')
"$function_name" laneway
printf '%s\\n' "${{COMPREPLY[@]}}"
""",
        encoding="utf-8",
    )
    path = os.pathsep.join((str(Path(LANEWAY).parent), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", script], check=True, capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    return [word.strip() for word in done.stdout.split()]


@pytest.mark.parametrize(
    ("words", "want"),
    [
        ("laneway su", ["submit", "suspend"]),
        ("laneway -n x que", ["queue"]),
        ("laneway list --sel", ["--selector"]),
        ("laneway convert --to Train", ["TrainJob", "TrainingJob"]),
    ],
)
def test_bash_completes(words: str, want: list[str], tmp_path: Path) -> None:
    assert sorted(completed(words, tmp_path)) == want


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
