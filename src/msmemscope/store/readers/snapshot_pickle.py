"""Reads pickles of plain data: a small machine that knows no opcode by which a pickle could name or call anything.

Python's own unpickler runs what a file asks for, and even with all classes forbidden it allocates what a file claims.
This one builds dictionaries, lists, tuples, numbers, texts and bytes, and refuses everything else. The opcodes are those
of the module `pickletools`, protocols 2 to 5.
"""

from __future__ import annotations

import gzip
import pickletools
import struct
import zipfile
import zlib
from typing import IO, TYPE_CHECKING, Any, Final

from msmemscope.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOST_BYTES: Final = 4 << 30
"""Longest pickle that is read, after decompression."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZIP_MAGIC: Final = b"PK\x03\x04"
_NAMES: Final = {ord(opcode.code): opcode.name for opcode in pickletools.opcodes}


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
        return _Machine(content).run()
    except _RefusedError as error:
        message = f"{path} is no memory snapshot: {error}"
        hint = "a snapshot is plain data; this file wants to run code or to build objects, and was not loaded"
        raise InputError(message, hint=hint) from error
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, struct.error, OverflowError) as error:
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
    content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        message = f"longer than {MOST_BYTES >> 30} GiB"
        raise OSError(0, message)
    return content


class _RefusedError(Exception):
    """The pickle asks for something that is no plain data."""


class _Machine:
    """Runs one pickle."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._place = 0
        self.stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        """Returns what the pickle makes."""
        content = self._content
        steps = _STEPS
        while True:
            code = content[self._place]
            self._place += 1
            if code == _STOP:
                return self.stack.pop()
            step = steps[code]
            if step is None:
                name = _NAMES.get(code, f"opcode {code}")
                message = f"it holds {name} at byte {self._place - 1}"
                raise _RefusedError(message)
            step(self)

    def take(self, size: int) -> bytes:
        """Returns the next bytes."""
        end = self._place + size
        if size < 0 or end > len(self._content):
            message = "the file ends too early"
            raise ValueError(message)
        taken = self._content[self._place : end]
        self._place = end
        return taken

    def number(self, size: int, *, signed: bool = False) -> int:
        """Returns the next bytes as a number."""
        return int.from_bytes(self.take(size), "little", signed=signed)

    def items(self) -> list[Any]:
        """Returns what was put since the last mark."""
        items, self.stack = self.stack, self._marks.pop()
        return items

    def skip(self, size: int) -> None:
        """PROTO and FRAME: what they say is not needed."""
        self.take(size)

    def drop(self) -> None:
        """POP."""
        self.stack.pop()

    def drop_to_mark(self) -> None:
        """POP_MARK."""
        self.items()

    def mark(self) -> None:
        """MARK."""
        self._marks.append(self.stack)
        self.stack = []

    def small_number(self) -> None:
        """BININT1."""
        self.stack.append(self._content[self._place])
        self._place += 1

    def recall_short(self) -> None:
        """BINGET."""
        self.stack.append(self.memo[self._content[self._place]])
        self._place += 1

    def memoize(self) -> None:
        """MEMOIZE."""
        self.memo[len(self.memo)] = self.stack[-1]

    def remember(self, size: int) -> None:
        """BINPUT, LONG_BINPUT."""
        self.memo[self.number(size)] = self.stack[-1]

    def text(self, size: int) -> None:
        """The forms of BINUNICODE."""
        self.stack.append(str(self.take(self.number(size)), "utf-8", "surrogatepass"))

    def binary(self, size: int) -> None:
        """The forms of BINBYTES."""
        self.stack.append(self.take(self.number(size)))

    def long_number(self, size: int) -> None:
        """LONG1 and LONG4."""
        self.stack.append(self.number(self.number(size), signed=True))

    def set_items(self) -> None:
        """SETITEMS."""
        items = self.items()
        target = self._container(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[key] = value

    def set_item(self) -> None:
        """SETITEM."""
        value = self.stack.pop()
        key = self.stack.pop()
        self._container(dict)[key] = value

    def append_items(self) -> None:
        """APPENDS."""
        items = self.items()
        self._container(list).extend(items)

    def append_item(self) -> None:
        """APPEND."""
        item = self.stack.pop()
        self._container(list).append(item)

    def tuple_of(self, count: int) -> None:
        """TUPLE1 to TUPLE3."""
        items = tuple(self.stack[-count:])
        if len(items) != count:
            message = "a tuple of more than there is"
            raise ValueError(message)
        self.stack[-count:] = [items]

    def _container(self, kind: type) -> Any:
        target = self.stack[-1]
        if type(target) is not kind:
            message = f"a {kind.__name__} was expected, not a {type(target).__name__}"
            raise TypeError(message)
        return target

    def put(self, value: Any) -> None:
        """Puts a value."""
        self.stack.append(value)


_STOP: Final = ord(".")


def _steps() -> list[Callable[[_Machine], None] | None]:
    """Builds the table of opcodes; None for those that are refused."""
    machine = _Machine
    table: dict[str, Callable[[_Machine], None]] = {
        "PROTO": lambda m: m.skip(1),
        "FRAME": lambda m: m.skip(8),
        "MARK": machine.mark,
        "POP": machine.drop,
        "POP_MARK": machine.drop_to_mark,
        "DUP": lambda m: m.put(m.stack[-1]),
        "NONE": lambda m: m.put(None),
        "NEWTRUE": lambda m: m.put(value=True),
        "NEWFALSE": lambda m: m.put(value=False),
        "EMPTY_DICT": lambda m: m.put({}),
        "EMPTY_LIST": lambda m: m.put([]),
        "EMPTY_TUPLE": lambda m: m.put(()),
        "BININT": lambda m: m.put(m.number(4, signed=True)),
        "BININT1": machine.small_number,
        "BININT2": lambda m: m.put(m.number(2)),
        "LONG1": lambda m: m.long_number(1),
        "LONG4": lambda m: m.long_number(4),
        "BINFLOAT": lambda m: m.put(struct.unpack(">d", m.take(8))[0]),
        "BINUNICODE": lambda m: m.text(4),
        "SHORT_BINUNICODE": lambda m: m.text(1),
        "BINUNICODE8": lambda m: m.text(8),
        "BINBYTES": lambda m: m.binary(4),
        "SHORT_BINBYTES": lambda m: m.binary(1),
        "BINBYTES8": lambda m: m.binary(8),
        "BINPUT": lambda m: m.remember(1),
        "LONG_BINPUT": lambda m: m.remember(4),
        "MEMOIZE": machine.memoize,
        "BINGET": machine.recall_short,
        "LONG_BINGET": lambda m: m.put(m.memo[m.number(4)]),
        "SETITEM": machine.set_item,
        "SETITEMS": machine.set_items,
        "APPEND": machine.append_item,
        "APPENDS": machine.append_items,
        "TUPLE": lambda m: m.put(tuple(m.items())),
        "TUPLE1": lambda m: m.tuple_of(1),
        "TUPLE2": lambda m: m.tuple_of(2),
        "TUPLE3": lambda m: m.tuple_of(3),
    }
    return [table.get(_NAMES.get(code, "")) for code in range(256)]


_STEPS: Final = _steps()
