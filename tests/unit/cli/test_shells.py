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
