"""The root file system of another architecture has what installing its packages would give, and runs none of their programs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hack.images import architectures, foreign
from hack.images.foreign import unpack
from hack.images.recipes import Recipe

RECIPE = Recipe(name="base", packages=("tool",))
STATUS = "Package: tool\nStatus: install ok installed\nArchitecture: amd64\nMulti-Arch: same\nVersion: 1\n\n"
MODULE = "usr/lib/python3/module.py"
HERE = {
    "usr/lib/x86_64-linux-gnu/libtool.so": "for amd64",
    MODULE: "VALUE = 1\n",
    "usr/lib/python3/of_amd64.py": "",
}
THERE = {
    "usr/lib/aarch64-linux-gnu/libtool.so": "for arm64",
    MODULE: "VALUE = 1\n",
    "usr/lib/python3/changed.py": "VALUE = 2\n",
    "etc/tool.conf": "a setting\n",
}
MADE = {
    "etc/passwd": "root:x:0:0::/root:/bin/sh\n",
    "etc/ld.so.cache": "for amd64",
    "usr/lib/python3/__pycache__/module.cpython-313.pyc": "byte code",
    "usr/lib/python3/__pycache__/of_amd64.cpython-313.pyc": "byte code",
    "usr/lib/python3/__pycache__/changed.cpython-313.pyc": "byte code",
    "usr/lib/python3/changed.py": "VALUE = 1\n",
    "var/lib/dpkg/status": STATUS,
    "var/lib/dpkg/arch-native": "amd64\n",
    "var/lib/dpkg/info/format": "1\n",
    "var/lib/dpkg/alternatives/tool-x86_64-linux-gnu": "/usr/lib/x86_64-linux-gnu/libtool.so\n",
    "var/lib/apt/extended_states": "Package: tool\nArchitecture: amd64\nAuto-Installed: 1\n",
}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture
def native(tmp_path: Path) -> Path:
    """A root file system for amd64 with the package `tool`."""
    root = tmp_path / "native"
    write(root, HERE | MADE)
    names = (*HERE, "usr/lib/python3/changed.py")
    listed = "".join(f"/{name}\n" for name in ("usr", "usr/lib", "usr/lib/python3", *names))
    write(root, {"var/lib/dpkg/info/tool:amd64.list": listed})
    (root / "usr/lib/x86_64-linux-gnu/link").symlink_to("/etc/alternatives/tool-x86_64-linux-gnu")
    return root


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """The package for arm64. Its script fails on every machine."""
    folder = tmp_path / "package"
    control = STATUS.replace("Status: install ok installed\n", "").replace("amd64", "arm64").rstrip("\n")
    control += "\nMaintainer: Nobody <nobody@example.com>\nDescription: A tool\n It has a second line.\n"
    scripts = {"DEBIAN/control": control, "DEBIAN/conffiles": "/etc/tool.conf\n"}
    write(folder, THERE | scripts | {"DEBIAN/postinst": "#!/bin/sh\nexit 1\n"})
    (folder / "DEBIAN/postinst").chmod(0o755)
    command = ["dpkg-deb", "--build", "--root-owner-group", folder, tmp_path / "tool.deb"]
    subprocess.run(command, check=True, capture_output=True)
    return tmp_path / "tool.deb"


@pytest.fixture
def root(tmp_path: Path, native: Path, archive: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root file system for arm64."""
    monkeypatch.setattr(architectures.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(foreign, "_download", lambda *_: [archive])
    unpack(RECIPE, tmp_path / "root", "arm64", native)
    return tmp_path / "root"


def test_it_has_the_packages_files_and_what_scripts_made(root: Path) -> None:
    found = {
        path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*") if path.is_file()
    }
    assert {name: text for name, text in found.items() if not name.startswith("var/")} == {
        **THERE,
        "etc/passwd": MADE["etc/passwd"],
        "usr/lib/python3/__pycache__/module.cpython-313.pyc": "byte code",
    }


def test_links_and_texts_name_the_architecture(root: Path) -> None:
    link = root / "usr/lib/aarch64-linux-gnu/link"
    assert link.readlink() == Path("/etc/alternatives/tool-aarch64-linux-gnu")
    dpkg = root / "var/lib/dpkg"
    assert (dpkg / "arch-native").read_text() == "arm64\n"
    assert (
        dpkg / "alternatives/tool-aarch64-linux-gnu"
    ).read_text() == "/usr/lib/aarch64-linux-gnu/libtool.so\n"
    assert "Architecture: arm64" in (root / "var/lib/apt/extended_states").read_text()


def test_dpkg_knows_the_package(root: Path) -> None:
    query = ["dpkg-query", f"--admindir={root}/var/lib/dpkg"]
    shown = "${Package} ${Architecture} ${Status}${Conffiles}\n"
    done = subprocess.run(
        [*query, "--show", f"--showformat={shown}"], check=True, capture_output=True, text=True
    )
    assert done.stdout == "tool arm64 install ok installed /etc/tool.conf 0fe3b45684ba33113a7cbec60285ab48\n"
    listed = subprocess.run([*query, "--listfiles", "tool:arm64"], check=True, capture_output=True, text=True)
    assert {f"/{name}" for name in THERE} <= set(listed.stdout.splitlines())
    assert (root / "var/lib/dpkg/info/tool:arm64.postinst").exists()
