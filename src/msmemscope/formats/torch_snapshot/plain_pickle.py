"""Reads pickles of plain data, after a look at every opcode (native/offline/plain_pickle).

Python's own unpickler runs what a file asks for. Even with all classes forbidden it allocates as much memory as a file
claims. Keys of equal hashes can keep it busy for days. So the whole pickle is walked first, without making anything of
it. It may build dictionaries whose keys are texts and numbers, lists, tuples, numbers, texts and bytes. Only then it is
unpickled, by an unpickler that finds no class.
"""

from __future__ import annotations

import contextlib
import gc
import gzip
import io
import os
import pickle
import zipfile
import zlib
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from msmemscope import _native
from msmemscope.errors import InputError
from msmemscope.formats.available_memory import available_memory_bytes
from msmemscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST_BYTES: Final = 4 << 30
"""Longest pickle that is read, after decompression."""
SMALL_BYTES: Final = 64 << 20
"""The size that a packed file may always unpack to. `MOST_TIMES` its own size is added to that."""
MOST_TIMES: Final = 200
"""Snapshots unpack to about twenty times their size. A thousand times is made to fill memory."""

_PIECE_BYTES: Final = 16 << 20
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZIP_MAGIC: Final = b"PK\x03\x04"
_PICKLE_PROTO: Final = 0x80
_NEWEST_PROTOCOL: Final = 5
_ZIP_METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""How torch packs archives. Others can take any memory for themselves."""

_ENDS_EARLY, _TOO_LONG, _NOT_PLAIN, _MEMO_NUMBER, _NOTHING_THERE, _LARGE_NUMBER, _KEY = range(1, 8)
"""`PickleFault` of native/offline/plain_pickle."""
_DAMAGES: Final = {
    _ENDS_EARLY: "the file ends too early",
    _TOO_LONG: "an argument reaches beyond the end of the file",
    _MEMO_NUMBER: "something is remembered that was never made",
    _NOTHING_THERE: "something is taken that was never made",
    _LARGE_NUMBER: "a number has more than 64 bits",
    _KEY: "a key is neither a text nor a number",
}


class PlainData(NamedTuple):
    """The content of a pickle."""

    value: Any
    size_bytes: int
    """Of the pickle, unpacked. Objects can be shared, so the value can be far larger."""


def begins_like_pickle(start: bytes) -> bool:
    """Whether a file with this beginning may be a pickle, as it is or packed."""
    is_pickle = start[0] == _PICKLE_PROTO and start[1:2] <= bytes([_NEWEST_PROTOCOL])
    return is_pickle or start.startswith((_GZIP_MAGIC, _ZIP_MAGIC))


def read_plain_pickle(path: Path) -> PlainData:
    """Return the data of a pickle, which may be packed by gzip or lie in a ZIP archive (as torch.save makes them).

    Args:
        path: The file.

    Raises:
        InputError: it cannot be read, is cut off or damaged, is too large, or holds anything but plain data.
    """
    try:
        content = _content(path)
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"{path} cannot be read: {reason}"
        raise InputError(message) from error
    _check(content, path)
    try:
        with _without_collector():
            return PlainData(_PlainUnpickler(io.BytesIO(content)).load(), len(content))
    except (
        pickle.UnpicklingError, EOFError, IndexError, KeyError, TypeError, ValueError, AttributeError, OverflowError,
        MemoryError,
    ) as error:  # fmt: skip
        message = f"{path} is cut off or damaged: {type(error).__name__}: {error}"
        raise InputError(message) from error


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        packed_bytes = os.fstat(file.fileno()).st_size
        most = min(MOST_BYTES, SMALL_BYTES + MOST_TIMES * packed_bytes)
        start = file.read(4)
        file.seek(0)
        if start.startswith(_ZIP_MAGIC):
            return _member(file, most)
        if start.startswith(_GZIP_MAGIC):
            with gzip.open(file) as unpacked:
                return _limited(unpacked, most)
        if packed_bytes > MOST_BYTES:
            message = f"it is longer than {format_bytes(MOST_BYTES)}"
            raise OSError(0, message)
        _check_memory(packed_bytes)
        return file.read(packed_bytes)


def _member(file: IO[bytes], most: int) -> bytes:
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        pickles = [member for member in members if member.filename.rpartition("/")[2] == "data.pkl"] or members
        if len(pickles) != 1:
            message = f"a ZIP archive of {len(members)} files without a data.pkl"
            raise zipfile.BadZipFile(message)
        if pickles[0].compress_type not in _ZIP_METHODS:
            message = "a ZIP archive that is packed in an unusual way"
            raise zipfile.BadZipFile(message)
        with archive.open(pickles[0]) as member:
            return _limited(member, most)


def _limited(file: IO[bytes] | gzip.GzipFile, most: int) -> bytes:
    # Piece by piece: to read so much at once makes room for it, however little there is.
    pieces = []
    length = 0
    while piece := file.read(_PIECE_BYTES):
        pieces.append(piece)
        length += len(piece)
        if length > most:
            message = f"it unpacks to more than {format_bytes(most)}, as no snapshot does"
            raise OSError(0, message)
        _check_memory(length)
    return b"".join(pieces)


def _check_memory(needed_bytes: int) -> None:
    """Refuse what does not fit into memory any more.

    Raises:
        OSError: so much is not available.
    """
    available = available_memory_bytes()
    if available is not None and needed_bytes > available:
        message = (
            f"it takes more than {format_bytes(needed_bytes)} of memory, and {format_bytes(available)} are available"
        )
        raise OSError(0, message)


def _check(content: bytes, path: Path) -> None:
    """Look at the whole pickle.

    Raises:
        InputError: it makes something else than plain data, is damaged, or needs more memory than there is.
    """
    fault, place, object_bytes = _native.walk_pickle(content)
    if fault == _NOT_PLAIN:
        import pickletools

        name = next((code.name for code in pickletools.opcodes if ord(code.code) == content[place]), "a foreign byte")
        message = f"{path} is no memory snapshot: it holds {name} at byte {place}"
        hint = "a snapshot is plain data; this file wants to run code or to build objects, and was not loaded"
        raise InputError(message, hint=hint)
    if fault:
        message = f"{path} is cut off or damaged: byte {place}: {_DAMAGES[fault]}"
        raise InputError(message)
    available = available_memory_bytes()
    if available is not None and object_bytes > available:
        message = (
            f"{path} is too large for this machine: it takes about {format_bytes(object_bytes)} of memory, "
            f"and {format_bytes(available)} are available"
        )
        raise InputError(message, hint="read it on a machine with more memory")


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Keep the collector of cycles from looking through millions of new containers. None of them is garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _PlainUnpickler(pickle.Unpickler):
    """Finds nothing, whatever a pickle names: `_check` has seen that it names nothing."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse it."""
        message = f"it names {module}.{name}"
        raise pickle.UnpicklingError(message)

    def persistent_load(self, identity: object) -> NoReturn:
        """Refuse it."""
        message = f"it refers to something outside: {type(identity).__name__}"
        raise pickle.UnpicklingError(message)
