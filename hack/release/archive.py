"""Tar archives whose bytes depend on their content and one time only."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

PROGRAM_MODE = 0o755


def write_tar(
    path: Path, files: Mapping[str, bytes | Path], epoch: int, programs: frozenset[str] = frozenset()
) -> None:
    """Writes an archive of files that belong to root; with gzip if its name ends in `gz`.

    Args:
        path: is written. Its folder must exist.
        files: by name in the archive: their content, or the file that holds it.
        epoch: their time, in seconds since 1970.
        programs: names of files that may be executed.
    """
    with path.open("wb") as raw:
        if path.name.endswith("gz"):
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=epoch) as compressed:
                _write(compressed, files, epoch, programs)
        else:
            _write(raw, files, epoch, programs)


def tree(folder: Path, prefix: str = "") -> dict[str, Path]:
    """Returns the files below `folder`, by their name in it behind `prefix`."""
    return {
        f"{prefix}{path.relative_to(folder).as_posix()}": path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _write(
    file: io.BufferedIOBase, files: Mapping[str, bytes | Path], epoch: int, programs: frozenset[str]
) -> None:
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.mtime, entry.mode = epoch, PROGRAM_MODE if name in programs else 0o644
            if isinstance(content, Path):
                entry.size = content.stat().st_size
                with content.open("rb") as source:
                    archive.addfile(entry, source)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
