"""The interposer starts the client in any Python that imports PyTorch, and leaves other programs alone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.isolation.pythons import (
    BASE,
    CLIENT,
    FAKE_TORCH,
    LOADED,
    STARTED,
    PythonContainer,
    interpreters,
    python_library,
)
from tests.support.isolation.building import program

FLAGS = ["", "-E", "-I", "-S", "-X tracemalloc", "-W error", "-bb -O"]
FLAGS_IN_EACH = ["-I -S", "-X dev"]
"""Those that need most of an interpreter: no path, no `site`; another allocator than at the library's start."""


@pytest.fixture
def python(interposer: Path, tmp_path: Path) -> PythonContainer:
    """The library beside the client, as in the client's image: links into the folder of a version."""
    version, image = tmp_path / "client" / ".versions" / "1", tmp_path / "image"
    version.mkdir(parents=True)
    image.mkdir()
    (version / "laneway").symlink_to(CLIENT / "laneway")
    shutil.copy(interposer, version)
    for name in ("laneway", interposer.name):
        (tmp_path / "client" / name).symlink_to(Path(".versions") / "1" / name)
    (image / "torch.py").write_text(FAKE_TORCH)
    return PythonContainer(tmp_path / "client" / interposer.name, image)


@pytest.mark.parametrize(
    ("interpreter", "flags"),
    [(BASE, flags) for flags in FLAGS]
    + [(each, flags) for each in interpreters() for flags in FLAGS_IN_EACH],
)
def test_the_client_starts_in_any_python(python: PythonContainer, interpreter: str, flags: str) -> None:
    assert python.prints([interpreter, *flags.split(), "-c", f"{python.path()}; {STARTED}"]) == ["started"]


@pytest.mark.parametrize("allocator", ["debug", "malloc", "malloc_debug", "pymalloc_debug"])
def test_it_starts_with_each_allocator_of_python(python: PythonContainer, allocator: str) -> None:
    assert python.prints([BASE, "-c", STARTED], PYTHONMALLOC=allocator) == ["started"]


@pytest.mark.parametrize(
    "code",
    [
        "import importlib; torch = importlib.import_module('torch')",
        "import importlib.util; assert importlib.util.find_spec('torch'); import torch",
        "import threading; thread = threading.Thread(target=__import__, args=['torch']); thread.start(); "
        "thread.join(); import torch",
        "import sys; sys.addaudithook(lambda event, arguments: None); import torch",
        "import torch, importlib; importlib.invalidate_caches(); import torch",
        "from laneway.client import iteration; import torch",
    ],
    ids=["import_module", "find_spec", "thread", "audit hook", "invalidated caches", "script API"],
)
def test_it_starts_however_the_script_imports_torch(python: PythonContainer, code: str) -> None:
    assert python.prints([BASE, "-c", f"{code}; assert torch.installed == [torch]; print('started')"]) == [
        "started"
    ]


@pytest.mark.parametrize("way", ["file", "module", "standard input"])
def test_it_starts_however_the_script_is_run(python: PythonContainer, way: str) -> None:
    (python.image / "script.py").write_text(STARTED)
    arguments = {"file": ["script.py"], "module": ["-m", "script"], "standard input": []}[way]
    done = python.run([BASE, *arguments], text=STARTED)
    assert (done.stdout, done.stderr) == ("started\n", "")


def test_child_processes_start_it_once_each(python: PythonContainer) -> None:
    (python.image / "script.py").write_text(
        "import multiprocessing, os\n"
        "def work():\n"
        "    import torch; print(len(torch.installed), flush=True)\n"
        "if __name__ == '__main__':\n"
        "    work()\n"
        "    for way in ('spawn', 'fork', 'forkserver'):\n"
        "        process = multiprocessing.get_context(way).Process(target=work)\n"
        "        process.start(); process.join(); assert process.exitcode == 0\n"
    )
    assert python.prints([BASE, "script.py"]) == ["1"] * 4


def test_it_starts_where_python_is_embedded_without_site(python: PythonContainer) -> None:
    library = python_library()
    embedding = program("embedding", str(library), f"-Wl,-rpath,{library.parent}")
    code = f"{python.path()}; {STARTED}"
    assert python.prints([embedding, code], PYTHONHOME=os.path.dirname(os.path.dirname(BASE))) == [
        "started",
        "again",
    ]


def test_a_subinterpreter_has_the_client_too(python: PythonContainer) -> None:
    code = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
other = interpreters.create()
interpreters.run_string(other, "import laneway.client; assert not laneway.client.stopping()")
interpreters.destroy(other)
print("good")
"""
    assert python.prints([BASE, "-c", code]) == ["good"]


def test_a_client_that_the_path_has_already_is_started_once(python: PythonContainer) -> None:
    """As where a pod sets PYTHONPATH, and the operator puts the client in front of it."""
    (python.interposer.parent / "sitecustomize.py").symlink_to(CLIENT / "sitecustomize.py")
    path = f"{python.interposer.parent}:{python.image}"
    assert python.prints([BASE, "-c", STARTED], PYTHONPATH=path, LANEWAY_DIR="/run/laneway") == ["started"]


def test_the_images_own_path_and_sitecustomize_are_as_without_it(python: PythonContainer) -> None:
    own = python.image / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys; sys.own = 'ran'")
    code = "import sys, os; print(sys.own, sys.path, os.environ['PYTHONPATH'])"
    with_it = python.run([BASE, "-c", code], {"PYTHONPATH": str(own)})
    without = python.run([BASE, "-c", code], {"PYTHONPATH": str(own), "LD_PRELOAD": ""})
    assert (with_it.stdout, with_it.stderr) == (without.stdout, without.stderr)
    assert with_it.stdout.startswith("ran ")


def test_a_script_without_pytorch_loads_nothing_of_the_client(python: PythonContainer) -> None:
    assert python.prints([BASE, "-c", f"import json, decimal, unittest; {LOADED}"]) == ["[]"]


def test_a_script_with_jax_gets_its_own_memory_fraction(python: PythonContainer) -> None:
    (python.image / "jax.py").write_text("")
    code = "import jax, os; print(os.environ.get('XLA_PYTHON_CLIENT_MEM_FRACTION'))"
    assert python.prints([BASE, "-c", code], XLA_PYTHON_CLIENT_MEM_FRACTION="0.4") == ["0.4"]
    both = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.4", "XLA_CLIENT_MEM_FRACTION": "0.9"}
    assert python.prints([BASE, "-c", code], **both) == ["None"]


def test_the_agents_folder_is_known_without_the_environment(python: PythonContainer, directory: Path) -> None:
    code = f"{STARTED}; from laneway.client.environment import Environment; print(Environment.read().socket_path)"
    assert python.prints([BASE, "-c", code]) == ["started", f"{directory}/agent.sock"]
    assert python.prints([BASE, "-c", code], LANEWAY_DIR="/other") == ["started", "/other/agent.sock"]


def test_a_missing_client_leaves_the_script_running(python: PythonContainer) -> None:
    (python.interposer.parent / "laneway").unlink()
    (python.image / "torch.py").write_text("")
    done = python.run([BASE, "-c", "import torch; print('trained')"])
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert done.stderr.startswith("laneway: the script runs without the client: ")


@pytest.mark.parametrize("torch", ["raise ImportError('no libcuda')", None])
def test_a_failing_import_fails_as_without_it(python: PythonContainer, torch: str | None) -> None:
    (python.image / "torch.py").unlink()
    if torch is not None:
        (python.image / "torch.py").write_text(torch)
    code = "for _ in range(2):\n    try:\n        import torch\n    except ImportError as error:\n        print(error)"
    message = "No module named 'torch'" if torch is None else "no libcuda"
    assert python.prints([BASE, "-c", code]) == [message] * 2
