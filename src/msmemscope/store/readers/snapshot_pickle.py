"""Reads pickles of plain data, after a look at every opcode: none by which a pickle could name or call anything may be there.

Python's own unpickler runs what a file asks for, and even with all classes forbidden it allocates what a file claims. So
the whole pickle is walked first, without making anything of it. It may build dictionaries, lists, tuples, numbers, texts
and bytes, no length may lie beyond the end of the file, and no number of a memo beyond what so many bytes can put into
one. Only then it is unpickled, by an unpickler that finds no class. The opcodes are those of the module `pickletools`,
protocols 2 to 5.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import gzip
import io
import pickle
import pickletools
import re
import struct
import threading
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn

from msmemscope.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MOST_BYTES: Final = 4 << 30
"""Longest pickle that is read, after decompression."""

_PIECE_BYTES: Final = 16 << 20
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZIP_MAGIC: Final = b"PK\x03\x04"
_OPCODES: Final = {opcode.name: opcode.code.encode("latin-1") for opcode in pickletools.opcodes}
_NAMES: Final = {code[0]: name for name, code in _OPCODES.items()}

_FIXED: Final = {
    0: (
        "MARK", "POP", "POP_MARK", "DUP", "NONE", "NEWTRUE", "NEWFALSE", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE",
        "SETITEM", "SETITEMS", "APPEND", "APPENDS", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "MEMOIZE",
    ),
    1: ("PROTO", "BININT1", "BINGET", "BINPUT"),
    2: ("BININT2",),
    4: ("BININT", "LONG_BINGET"),
    8: ("BINFLOAT", "FRAME"),
}  # fmt: skip
"""Opcodes that are accepted, by the number of bytes of their argument."""
_COUNTED: Final = {
    "LONG1": "<B", "LONG4": "<i", "BINUNICODE": "<I", "SHORT_BINUNICODE": "<B", "BINUNICODE8": "<Q",
    "BINBYTES": "<I", "SHORT_BINBYTES": "<B", "BINBYTES8": "<Q",
}  # fmt: skip
"""Those whose argument says how many bytes follow it, with the form of that number."""
_LENGTHS: Final = {_OPCODES[name][0]: struct.Struct(form) for name, form in _COUNTED.items()}
_STOP: Final = _OPCODES["STOP"][0]

_TUPLES: Final = [_OPCODES[name] for name in ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3")]
_TUPLES_OF_USUAL_STACK: Final = 5_000
_STACK_BYTES_OF_TUPLE: Final = 512
"""More than any build of Python needs."""
_MOST_STACK_BYTES: Final = 1 << 30
_PAGE_BYTES: Final = 1 << 16

_LONGEST_NUMBER: Final = 9
"""Bytes of the numbers of LONG1 that are walked over with the opcodes of fixed length: all that have 64 bits."""
_OPCODES_AT_ONCE: Final = 5_000
"""The engine of expressions remembers each repetition until the expression ends."""


_ACCEPTED: Final = {*_COUNTED, "LONG_BINPUT", *(name for names in _FIXED.values() for name in names)}


@functools.lru_cache(maxsize=4)
def _run_of(size: int) -> re.Pattern[bytes]:
    """Returns what matches opcodes whose length is known without arithmetic: nearly all, walked over by compiled code.

    Args:
        size: Of the pickle. Python makes room for as many entries of a memo as the number of one says, so that this must
            not be much beyond what so many bytes can put in.
    """
    numbers = b"|".join(b"%s.{%d}" % (re.escape(bytes([count])), count) for count in range(_LONGEST_NUMBER + 1))
    parts = [
        b"[%s]%s" % (b"".join(re.escape(_OPCODES[name]) for name in names), b".{%d}" % count if count else b"+")
        for count, names in _FIXED.items()
    ]
    if size < 1 << 16:
        index = rb"..\x00\x00"
    elif size < 1 << 24:
        index = rb"..[\x00-\x%02x]\x00" % (size >> 16)
    else:
        index = rb"...[\x00-\x%02x]" % min(size >> 24, 255)
    parts += [
        b"%s(?:%s)" % (re.escape(_OPCODES["LONG1"]), numbers),
        b"%s%s" % (re.escape(_OPCODES["LONG_BINPUT"]), index),
    ]
    return re.compile(b"(?:%s){1,%d}" % (b"|".join(parts), _OPCODES_AT_ONCE), re.DOTALL)


def read_plain_pickle(path: Path) -> Any:
    """Returns the data of a pickle, which may be packed by gzip or lie in a ZIP archive (as torch.save makes them).

    Args:
        path: The file.

    Raises:
        InputError: it cannot be read, is cut off or damaged, is too large, or holds anything but plain data.
    """
    try:
        content = _content(path)
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"{path} cannot be read: {reason}"
        raise InputError(message) from error
    try:
        tuples = _check(content)
        with _without_collector():
            return _with_deep_stack(_PlainUnpickler(io.BytesIO(content)).load, tuples)
    except _RefusedError as error:
        message = f"{path} is no memory snapshot: {error}"
        hint = "a snapshot is plain data; this file wants to run code or to build objects, and was not loaded"
        raise InputError(message, hint=hint) from error
    except (
        pickle.UnpicklingError, EOFError, IndexError, KeyError, TypeError, ValueError, AttributeError, OverflowError,
        MemoryError,
    ) as error:  # fmt: skip
        message = f"{path} is cut off or damaged: {type(error).__name__}: {error}"
        raise InputError(message) from error


def _content(path: Path) -> bytes:
    with path.open("rb") as file:
        start = file.read(4)
        file.seek(0)
        if start.startswith(_ZIP_MAGIC):
            return _member(file)
        if start.startswith(_GZIP_MAGIC):
            with gzip.open(file) as unpacked:
                return _limited(unpacked)
        return _limited(file)


def _member(file: IO[bytes]) -> bytes:
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        pickles = [name for name in names if name.rpartition("/")[2] == "data.pkl"] or names
        if len(pickles) != 1:
            message = f"a ZIP archive of {len(names)} files, none of which is data.pkl"
            raise zipfile.BadZipFile(message)
        with archive.open(pickles[0]) as member:
            return _limited(member)


def _limited(file: IO[bytes] | gzip.GzipFile) -> bytes:
    # Piece by piece: to read so much at once makes room for it, however little there is.
    pieces = []
    length = 0
    while piece := file.read(_PIECE_BYTES):
        pieces.append(piece)
        length += len(piece)
        if length > MOST_BYTES:
            message = f"longer than {MOST_BYTES >> 30} GiB"
            raise OSError(0, message)
    return b"".join(pieces)


class _RefusedError(Exception):
    """The pickle asks for something that is no plain data."""


def _check(content: bytes) -> int:
    """Walks over all opcodes up to the STOP.

    Returns:
        At most how many tuples they make.

    Raises:
        _RefusedError: one of them makes something else than plain data.
        ValueError: the file ends before the STOP, or claims more than so many bytes can hold.
    """
    run = _run_of(len(content)).match
    place = tuples = 0
    while True:
        match = run(content, place)
        if match is not None:
            place = match.end()
            tuples += sum(map(match[0].count, _TUPLES))
        code = content[place] if place < len(content) else None
        if code == _STOP:
            return tuples
        if code in _LENGTHS:
            place = _behind_counted(content, place)
        elif match is None:
            _refuse(content, place)


def _behind_counted(content: bytes, place: int) -> int:
    """Returns where the opcode ends that begins at a place, and that says how long it is."""
    length = _LENGTHS[content[place]]
    start = place + 1 + length.size
    size = length.unpack_from(content, place + 1)[0] if start <= len(content) else 0
    end: int = start + size
    if size < 0 or end > len(content):
        message = f"the {_NAMES[content[place]]} at byte {place} is longer than the file"
        raise ValueError(message)
    return end


def _refuse(content: bytes, place: int) -> NoReturn:
    """Says why the opcode at a place is not accepted."""
    if place >= len(content):
        message = "the file ends too early"
        raise ValueError(message)
    code = content[place]
    name = _NAMES.get(code, f"opcode {code}")
    if name in _ACCEPTED:
        message = f"the {name} at byte {place} does not fit into the file"
        raise ValueError(message)
    message = f"it holds {name} at byte {place}"
    raise _RefusedError(message)


def _with_deep_stack(load: Callable[[], Any], tuples: int) -> Any:
    """Calls a function with room for tuples within each other: to hash a key, Python goes down into each of them, unchecked.

    Args:
        load: What is called.
        tuples: How many there are at most.

    Raises:
        ValueError: they are too many for any stack.
    """
    if tuples <= _TUPLES_OF_USUAL_STACK:
        return load()
    size = _STACK_BYTES_OF_TUPLE * tuples
    if size > _MOST_STACK_BYTES:
        message = f"it makes {tuples} tuples, at most {_MOST_STACK_BYTES // _STACK_BYTES_OF_TUPLE} are read"
        raise ValueError(message)
    before = threading.stack_size(size // _PAGE_BYTES * _PAGE_BYTES + _PAGE_BYTES)
    try:
        with ThreadPoolExecutor(max_workers=1) as worker:
            loading = worker.submit(load)
    finally:
        threading.stack_size(before)
    return loading.result()


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Keeps the collector of cycles from looking through millions of new containers, none of which is garbage."""
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
        raise _RefusedError(message)

    def persistent_load(self, identity: object) -> NoReturn:
        """Refuse it."""
        message = f"it refers to something outside: {type(identity).__name__}"
        raise _RefusedError(message)
