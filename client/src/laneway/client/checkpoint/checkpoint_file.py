"""One file of a checkpoint: a header that describes it, then PyTorch's own format. It is complete, or it is
rejected.

    offset 0                              HEADER_BYTES
    ├─ magic, manifest (JSON), blanks ─────┼─ payload (torch.save) ─▶ end

The manifest holds the payload's length, and the SHA-256 of payload and manifest together. So a truncated or
altered file is detected before anything in it is unpickled. A file is written under another name in the same
folder, flushed to disk, and renamed. Then the folder is flushed, so that the name survives a power cut.
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
    """What a file says about itself."""

    run: str
    """The run of the job that wrote it: the same for all ranks, different after each start."""
    generation: int
    rank: int
    world_size: int


def write_checkpoint_file(path: str, manifest: Manifest, dump: Callable[[Any], None]) -> None:
    """Writes one file atomically.

    Args:
        path: its name; an existing file is replaced.
        manifest: its description.
        dump: writes the payload to the given file-like object.

    Raises:
        OSError: the disk is full, the folder is not writable, …; an existing file is unchanged.
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


def read_checkpoint_file(path: str, expected: Manifest, load: Callable[[BinaryIO], Any]) -> Any:
    """Reads one file after verifying it; returns what `load` made of its payload.

    Raises:
        CheckpointError: the file is truncated, damaged, or not what its name says.
    """
    name = os.path.basename(path)
    try:
        with open(path, "rb") as file:
            header = file.read(HEADER_BYTES)
            manifest, payload_bytes, sha256 = _parse(name, header)
            if manifest != expected:
                raise CheckpointError(f"{name} is misnamed: it holds {manifest}")
            size_bytes = os.fstat(file.fileno()).st_size - HEADER_BYTES
            if size_bytes != payload_bytes:
                raise CheckpointError(f"{name} is truncated: it holds {size_bytes} of {payload_bytes} bytes")
            digest = hashlib.sha256()
            for chunk in iter(lambda: file.read(CHUNK_BYTES), b""):
                digest.update(chunk)
            if _sealed(digest, manifest, payload_bytes) != sha256:
                raise CheckpointError(f"{name} is damaged: its digest does not match")
            return load(io.BufferedReader(Payload(file)))
    except OSError as error:
        raise CheckpointError(f"{name} cannot be read: {error}") from error


def flush_folder(folder: str) -> None:
    """Makes the names in a folder survive a power cut, on file systems that support it."""
    descriptor = os.open(folder or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        return  # a network file system without directory flushes: its server handles them
    finally:
        os.close(descriptor)


class HashingWriter:
    """A file object that counts and hashes what is written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.written_bytes = 0

    def write(self, data: Any) -> int:
        """Writes all of the data."""
        size_bytes = memoryview(data).nbytes
        self.digest.update(data)
        self._file.write(data)
        self.written_bytes += size_bytes
        return size_bytes

    def flush(self) -> None:
        """Passes buffered data to the kernel."""
        self._file.flush()


class Payload(io.RawIOBase):
    """The file without its header, as a file of its own: PyTorch reads from offset 0."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        file.seek(HEADER_BYTES)

    def readable(self) -> bool:
        """Returns True."""
        return True

    def seekable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads up to the buffer's length."""
        data = self._file.read(memoryview(buffer).nbytes)
        memoryview(buffer).cast("B")[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves to an offset of the payload."""
        if whence == os.SEEK_SET:
            offset += HEADER_BYTES
        return self._file.seek(offset, whence) - HEADER_BYTES

    def tell(self) -> int:
        """Returns the offset in the payload."""
        return self._file.tell() - HEADER_BYTES


def _header(manifest: Manifest, payload_bytes: int, digest: Any) -> bytes:
    sealed = {**_fields(manifest, payload_bytes), "sha256": _sealed(digest, manifest, payload_bytes)}
    return _encode(sealed)


def _encode(fields: dict[str, Any]) -> bytes:
    return (MAGIC + json.dumps(fields).encode()).ljust(HEADER_BYTES - 1) + b"\n"


def _parse(name: str, header: bytes) -> tuple[Manifest, int, str]:
    if not header.startswith(MAGIC):
        raise CheckpointError(f"{name} is not a Laneway checkpoint, or is truncated at its beginning")
    if len(header) < HEADER_BYTES:
        raise CheckpointError(f"{name} is truncated: it ends within its header")
    try:
        fields = json.loads(header[len(MAGIC) :].decode())
        manifest = Manifest(fields["run"], fields["generation"], fields["rank"], fields["world_size"])
        parsed = (manifest, int(fields["bytes"]), str(fields["sha256"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{name} is damaged: its header cannot be read ({error!r})") from error
    if _encode(fields) != header:
        raise CheckpointError(f"{name} is damaged: its header has changed")
    return parsed


def _fields(manifest: Manifest, payload_bytes: int) -> dict[str, Any]:
    return {**asdict(manifest), "bytes": payload_bytes}


def _sealed(digest: Any, manifest: Manifest, payload_bytes: int) -> str:
    """Returns the digest of payload and manifest together."""
    whole = digest.copy()
    whole.update(json.dumps(_fields(manifest, payload_bytes)).encode())
    return str(whole.hexdigest())
