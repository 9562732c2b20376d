"""Entry point of the client's image: puts the client into the folder named by the argument, for containers that mount that folder.

The folder then holds

    .versions/<hash of the content>/{laneway/client/…, sitecustomize.py, liblaneway-interposer.so, ld.so.preload}
    laneway ─▶ .versions/<hash>/laneway, and the other three likewise

Containers that run during an update keep a complete version: a link is replaced by one rename, and the files
of the version before stay for the modules that those containers have still to import.
"""

import fcntl
import hashlib
import os
import shutil
import sys
from pathlib import Path

SOURCE = Path("/client")
ENTRIES = ("laneway", "sitecustomize.py", "liblaneway-interposer.so", "ld.so.preload")
KEPT_VERSIONS = 3
"""Besides the version in use, those of containers that started before the last updates."""


def install(source: Path, destination: Path) -> str:
    """Makes `destination` show the client in `source`; returns the name of its version.

    Raises:
        FileNotFoundError: `source` is no whole client; `destination` is as before.
    """
    missing = [name for name in ENTRIES if not (source / name).exists()]
    if missing:
        raise FileNotFoundError(
            f"{source} holds no {' and no '.join(missing)}: this image is not whole, build it again"
        )
    versions = destination / ".versions"
    versions.mkdir(parents=True, exist_ok=True)
    with (versions / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        version = content_hash(source)
        if not (versions / version).exists():
            partial = versions / ".partial"
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(source, partial)
            partial.rename(versions / version)
        os.utime(versions / version)
        for name in ENTRIES:
            _link(destination / name, Path(".versions") / version / name)
        by_age = sorted(
            (path for path in versions.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime_ns
        )
        for path in by_age[:-KEPT_VERSIONS]:
            shutil.rmtree(path)
    return version


def content_hash(folder: Path) -> str:
    """16 hex digits that change with any file below `folder`."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(folder)}\0{content}\0".encode())
    return digest.hexdigest()[:16]


def _link(link: Path, target: Path) -> None:
    temporary = link.with_name(f".{link.name}.new")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(link)


def main() -> int:
    """Installs into the folder named on the command line; returns the exit status."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_absolute():
        print(f"usage: {Path(sys.argv[0]).name} /ABSOLUTE/FOLDER", file=sys.stderr)
        return 2
    destination = Path(sys.argv[1])
    print(f"the client, version {install(SOURCE, destination)}, is in {destination}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
