"""One file of a checkpoint: a page that says what it is, then PyTorch's own format. It is whole, or it is refused.

    offset 0                              HEADER_BYTES
    ├─ magic, manifest (JSON), blanks ─────┼─ payload (torch.save) ─▶ end

The manifest holds the payload's length and the SHA-256 of payload and manifest together, so a file that was cut off, or has one
byte changed anywhere, is known as such before anything in it is unpickled. A file is written under another name in the same folder, flushed
to the disk, and renamed; then the folder is flushed, so the name is there after a power cut, too.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from laneway.client.checkpoint.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable

MAGIC: Final = b"laneway checkpoint 1\n"
HEADER_BYTES: Final = 4096
CHUNK_BYTES: Final = 1 << 20
PARTIAL_SUFFIX: Final = ".partial"


@dataclass(frozen=True)
class Manifest:
    """What a file says of itself."""

    run: str
    """The life of the job that wrote it: the same for all ranks, another after each start."""
    generation: int
    rank: int
    world_size: int


def write_part(path: str, manifest: Manifest, dump: Callable[[Any], None]) -> None:
    """Writes one file, whole or not at all.

    Args:
        path: its name; what stands there already is replaced.
        manifest: what it is.
        dump: writes the payload into the file-like object that it gets.

    Raises:
        OSError: the disk is full, the folder cannot be written, …; what was there is as before.
    """
    partial = path + PARTIAL_SUFFIX
    try:
        with open(partial, "wb") as file:
            file.write(b" " * HEADER_BYTES)
            payload = HashingWriter(file)
            dump(payload)
            file.seek(0)
            file.write(_header(manifest, payload.written_bytes, payload.digest))
            file.flush()
            os.fsync(file.fileno())
        os.rename(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise
    flush_folder(os.path.dirname(path))


def read_part(path: str, expected: Manifest, load: Callable[[BinaryIO], Any]) -> Any:
    """Reads one file, once it is known to be whole; returns what `load` made of its payload.

    Raises:
        CheckpointError: it is torn, damaged or not what its name says.
    """
    name = os.path.basename(path)
    try:
        with open(path, "rb") as file:
            header = file.read(HEADER_BYTES)
            manifest, payload_bytes, sha256 = _parse(name, header)
            if manifest != expected:
                raise CheckpointError(f"{name} is not what its name says: it holds {manifest}")
            size_bytes = os.fstat(file.fileno()).st_size - HEADER_BYTES
            if size_bytes != payload_bytes:
                raise CheckpointError(
                    f"{name} is torn: it holds {size_bytes} bytes of the {payload_bytes} that were written"
                )
            digest = hashlib.sha256()
            for chunk in iter(lambda: file.read(CHUNK_BYTES), b""):
                digest.update(chunk)
            if _sealed(digest, manifest, payload_bytes) != sha256:
                raise CheckpointError(
                    f"{name} is damaged: its content does not have the digest it was written with"
                )
            return load(io.BufferedReader(Payload(file)))
    except OSError as error:
        raise CheckpointError(f"{name} cannot be read: {error}") from error


def flush_folder(folder: str) -> None:
    """Makes the names in a folder outlast a power cut, on file systems that can."""
    descriptor = os.open(folder or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        return  # a network file system that has no such thing: its server sees to it
    finally:
        os.close(descriptor)


class HashingWriter:
    """A file to write to, which counts and hashes what passes."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.written_bytes = 0

    def write(self, data: Any) -> int:
        """Writes all of it."""
        size_bytes = memoryview(data).nbytes
        self.digest.update(data)
        self._file.write(data)
        self.written_bytes += size_bytes
        return size_bytes

    def flush(self) -> None:
        """Hands what is buffered to the kernel."""
        self._file.flush()


class Payload(io.RawIOBase):
    """The file behind its header, as a file of its own: PyTorch reads from offset 0."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        file.seek(HEADER_BYTES)

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads up to the buffer's length."""
        data = self._file.read(memoryview(buffer).nbytes)
        memoryview(buffer).cast("B")[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Goes to an offset of the payload."""
        if whence == os.SEEK_SET:
            offset += HEADER_BYTES
        return self._file.seek(offset, whence) - HEADER_BYTES

    def tell(self) -> int:
        """The offset in the payload."""
        return self._file.tell() - HEADER_BYTES


def _header(manifest: Manifest, payload_bytes: int, digest: Any) -> bytes:
    sealed = {**_fields(manifest, payload_bytes), "sha256": _sealed(digest, manifest, payload_bytes)}
    return _encode(sealed)


def _encode(fields: dict[str, Any]) -> bytes:
    return (MAGIC + json.dumps(fields).encode()).ljust(HEADER_BYTES - 1) + b"\n"


def _parse(name: str, header: bytes) -> tuple[Manifest, int, str]:
    if not header.startswith(MAGIC):
        raise CheckpointError(f"{name} is no checkpoint of Laneway, or torn at its beginning")
    if len(header) < HEADER_BYTES:
        raise CheckpointError(f"{name} is torn: it ends within its first page")
    try:
        fields = json.loads(header[len(MAGIC) :].decode())
        manifest = Manifest(fields["run"], fields["generation"], fields["rank"], fields["world_size"])
        parsed = (manifest, int(fields["bytes"]), str(fields["sha256"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{name} is torn: its first page cannot be read ({error!r})") from error
    if _encode(fields) != header:
        raise CheckpointError(f"{name} is damaged: its first page is not as it was written")
    return parsed


def _fields(manifest: Manifest, payload_bytes: int) -> dict[str, Any]:
    return {**asdict(manifest), "bytes": payload_bytes}


def _sealed(digest: Any, manifest: Manifest, payload_bytes: int) -> str:
    """The digest of payload and manifest together."""
    whole = digest.copy()
    whole.update(json.dumps(_fields(manifest, payload_bytes)).encode())
    return str(whole.hexdigest())
