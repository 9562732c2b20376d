"""Makes root file systems for another architecture than this machine's, without running any of their programs.

Two sources give what installing the packages would give:

    the architecture's packages ─▶ tar ───────────────────────────┐
    this machine's root file system of the same recipe ─▶ what    ├▶ root file system
    maintainer scripts made there: users, links, byte code … ─────┘

The scripts make the same for every architecture, apart from names of folders such as `x86_64-linux-gnu`. The cache of the dynamic linker is
left out. Without it the linker searches the same folders.
"""

from __future__ import annotations

import email
import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from hack.images.apt import FOLDER, apt_get
from hack.images.architectures import MACHINES, host
from hack.images.chroot import output
from hack.images.recipes import Recipe

DPKG = Path("var/lib/dpkg")
_TEXTS = (
    "var/lib/apt/extended_states",
    *(
        f"{DPKG}/{name}"
        for name in ("alternatives/*", "arch-native", "diversions", "info/format", "triggers/*")
    ),
)
"""Files of apt and dpkg about all packages: they name architectures."""
_OF_ARCHITECTURE = ("dev", "proc", "sys", "etc/ld.so.cache", "var/cache/ldconfig", str(DPKG))
_MERGED = re.compile(r"^/(bin|sbin|lib|lib64)/")


def unpack(recipe: Recipe, root: Path, architecture: str, native: Path) -> None:
    """Adds the packages of a recipe to `root`.

    Args:
        root: a copy of the recipe's parent for that architecture, or an empty folder.
        architecture: another than this machine's.
        native: this machine's root file system of the recipe.
    """
    for cached in list((root / "usr/lib").glob("**/__pycache__")):
        shutil.rmtree(cached)  # the recipe's own comes from `native`
    status = root / DPKG / "status"
    if recipe.parent is None:
        (root / DPKG / "info").mkdir(parents=True)
        status.touch()
        wanted = sorted({name for name, _ in _installed(native)})
    else:
        wanted = list(recipe.packages)
    with tempfile.TemporaryDirectory() as folder:
        archives = _download(wanted, status, architecture, native, Path(folder))
        for archive in archives:
            stanza = _unpack(archive, root)
            with status.open("a", encoding="utf-8") as file:
                file.write(f"{stanza}\n")
        _copy_made(native, root, architecture, Path(folder))


def _installed(root: Path) -> Iterator[tuple[str, str]]:
    """Name and version of each package."""
    for stanza in (root / DPKG / "status").read_text(encoding="utf-8").split("\n\n"):
        about = email.message_from_string(stanza.lstrip("\n"))
        if about["Package"]:
            yield about["Package"], about["Version"]


def _download(names: list[str], status: Path, architecture: str, native: Path, folder: Path) -> list[Path]:
    """Returns the archives of packages, and of what they need beyond those in the file `status`. apt verifies them."""
    for name in ("state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    shutil.copyfile(status, folder / "status")
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root",
        "Dir::State": f"{FOLDER}/state",
        "Dir::State::status": f"{FOLDER}/status",
        "Dir::Cache": f"{FOLDER}/cache",
    }
    lines = "".join(f'{name} "{value}";\n' for name, value in settings.items())
    apt_get(native, folder, ["install", "--download-only", *names], settings=lines)
    return sorted((folder / "cache/archives").glob("*.deb"))


def _unpack(archive: Path, root: Path) -> str:
    """Unpacks a package and enters it into dpkg's folder; returns its stanza of dpkg's file of states."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        control, content = Path(folder) / "control", Path(folder) / "content.tar"
        output(["dpkg-deb", "--control", str(archive), str(control)])
        output(["sh", "-euc", 'dpkg-deb --fsys-tarfile "$1" >"$2"', "unpack", str(archive), str(content)])
        names = _extract(content, root)
        text = (control / "control").read_text(encoding="utf-8").rstrip("\n")
        about = email.message_from_string(text)
        qualifier = f":{about['Architecture']}" if about["Multi-Arch"] == "same" else ""
        info = root / DPKG / "info"
        for file in control.iterdir():
            if file.name != "control":
                shutil.copy2(file, info / f"{about['Package']}{qualifier}.{file.name}")
        (info / f"{about['Package']}{qualifier}.list").write_text("".join(f"{name}\n" for name in names))
        return text.replace("\n", "\nStatus: install ok installed\n", 1) + _conffiles(control, root) + "\n"


def _extract(archive: Path, root: Path) -> list[str]:
    """Unpacks a tar archive; returns the names in it as dpkg lists them."""
    options = ["--numeric-owner", "--preserve-permissions", "--keep-directory-symlink"]
    listed = output(["tar", *options, "-xvf", str(archive), "-C", str(root)])
    return [name.removeprefix(".").rstrip("/") or "/." for name in listed.splitlines()]


def _conffiles(control: Path, root: Path) -> str:
    """Returns the field with the configuration files and their content's MD5, by which dpkg notices changes."""
    listed = control / "conffiles"
    names = listed.read_text(encoding="utf-8").split("\n") if listed.exists() else []
    lines = (f"\n {name} {_md5(root / name[1:])}" for name in names if name.startswith("/"))
    text = "".join(lines)
    return f"\nConffiles:{text}" if text else ""


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def _copy_made(native: Path, root: Path, architecture: str, folder: Path) -> None:
    """Copies what no package of `native` holds, with names and links for another architecture."""
    names, archive = folder / "names", folder / "made.tar"
    names.write_text("".join(f"{name}\0" for name in made_by_scripts(native, root)), encoding="utf-8")
    here, there = (f"{MACHINES[name]}-linux-gnu" for name in (host(), architecture))

    def translated(text: str) -> str:
        return text.replace(here, there).replace(host(), architecture)

    words = ["tar", "-C", str(native), "--no-recursion", "--null", f"--files-from={names}"]
    output([*words, f"--transform=s,{here},{there},g", "-cf", str(archive)])
    _extract(archive, root)
    for path in (path for pattern in _TEXTS for path in native.glob(pattern)):
        copy = root / translated(path.relative_to(native).as_posix())
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(translated(path.read_text(encoding="utf-8")), encoding="utf-8")


def made_by_scripts(native: Path, root: Path) -> list[str]:
    """Returns the names below `native` that belong to no package, and are of no architecture.

    Byte code is among them only where `root` has the same source.
    """
    owned = set()
    for listed in (native / DPKG / "info").glob("*.list"):
        owned |= {_MERGED.sub(r"/usr/\1/", name)[1:] for name in listed.read_text().splitlines()}
    return [name for name in _below(native) if name not in owned and _fits(name, native, root)]


def _below(folder: Path) -> Iterable[str]:
    return (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")))


def _fits(name: str, native: Path, root: Path) -> bool:
    if any(name == left or name.startswith(f"{left}/") for left in _OF_ARCHITECTURE):
        return False
    path = Path(name)
    if path.suffix != ".pyc":
        return True
    source = path.parent.with_name(f"{path.name.partition('.')[0]}.py")
    ours = root / source
    return ours.is_file() and not ours.is_symlink() and ours.read_bytes() == (native / source).read_bytes()
