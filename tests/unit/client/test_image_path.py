"""The image's own PYTHONPATH, which the container's variable replaces: a placeholder entry stands for it."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tests.unit.client.interpreter import CLIENT, PYTHON

_TELL = "import json, os, sys; print(json.dumps([sys.path, os.environ.get('PYTHONPATH')]))"


def started(
    folder: Path, code: str, *path: str, image_path: str | None = None, with_client: bool = True
) -> subprocess.CompletedProcess[str]:
    """Runs an interpreter in `folder` with these entries in PYTHONPATH; `image_path` is the image's known
    value."""
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LANEWAY"))
    }
    environment["PYTHONPATH"] = os.pathsep.join(path)
    if with_client:
        environment["LANEWAY_DIR"] = str(folder)
    if image_path is not None:
        (folder / "image-pythonpath").write_text(image_path)
    return subprocess.run(
        [PYTHON, "-c", code], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )


def printed(done: subprocess.CompletedProcess[str]) -> list[tuple[list[str], str]]:
    """Returns the path and the variable of each printed line, without the client's own entry."""
    assert (done.returncode, done.stderr) == (0, "")
    found = []
    for line in done.stdout.splitlines():
        path, variable = json.loads(line)
        assert variable.split(os.pathsep)[0] == str(CLIENT)
        path.remove(str(CLIENT))
        found.append((path, variable.partition(os.pathsep)[2]))
    return found


def test_the_path_is_the_images_here_and_in_child_processes(
    tmp_path: Path,
) -> None:
    """Relative, empty and repeated entries, one that Python has anyway, and one that does not exist."""
    stdlib = sysconfig.get_paths()["stdlib"]
    given = os.pathsep.join(
        (f"{tmp_path}/own", "relative", "", f"{tmp_path}/own", stdlib, "/nonexistent", "")
    )
    plain = started(tmp_path, _TELL, given, with_client=False)
    expected, _ = json.loads(plain.stdout)
    code = f"{_TELL}; import subprocess; subprocess.run([sys.executable, '-c', {_TELL!r}], check=True)"

    done = started(tmp_path, code, str(CLIENT), f"{tmp_path}/image-pythonpath", image_path=given)

    assert printed(done) == [(expected, given)] * 2


def test_the_images_modules_and_its_sitecustomize_are_found(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/own_module.py").write_text("name = 'own'")
    (tmp_path / "own/sitecustomize.py").write_text("import sys; sys.own = 'ran'")
    code = "import sys, own_module; print(sys.own, own_module.name, 'laneway.client.torch_import' in sys.modules)"

    done = started(tmp_path, code, str(CLIENT), f"{tmp_path}/image-pythonpath", image_path=f"{tmp_path}/own")

    assert (done.stdout, done.stderr) == ("ran own True\n", "")


@pytest.mark.parametrize("image_path", [None, "", "/own:/of-image"])
def test_entries_of_an_entry_point_stay_around_the_images(tmp_path: Path, image_path: str | None) -> None:
    stand_in = f"{tmp_path}/image-pythonpath"

    done = started(tmp_path, _TELL, str(CLIENT), "/first", stand_in, "/last", image_path=image_path)

    entries = ["/first", *(image_path or "").split(":"), "/last"]
    ((path, variable),) = printed(done)
    assert variable == ":".join(filter(None, entries))
    assert [each for each in path if each in ("/first", "/own", "/of-image", "/last", stand_in)] == list(
        filter(None, entries)
    )


def test_a_path_without_the_placeholder_is_unchanged(tmp_path: Path) -> None:
    """As Kubernetes does it: the pod's value replaces the image's."""
    ((path, variable),) = printed(started(tmp_path, _TELL, str(CLIENT), "/users", image_path="/own"))
    assert variable == "/users"
    assert "/users" in path
    assert "/own" not in path
