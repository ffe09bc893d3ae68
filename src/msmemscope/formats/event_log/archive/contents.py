"""The members of an archive, which is a ZIP file that stores them as they are.

`mimetype` comes first, so that the file tells by its first bytes what it is, as documents of other programs do.
`archive.json` describes the rest. Long contents are pieces, each an Arrow stream (`byte_tables`): records, by columns, and
bytes.
"""

from __future__ import annotations

import dataclasses
import json
import os
import stat
from typing import TYPE_CHECKING, Any, Final

from msmemscope.formats.event_log.archive.byte_tables import MOST_ROWS
from msmemscope.formats.event_log.layout import RECORD
from msmemscope.formats.output_place import Mark

if TYPE_CHECKING:
    from pathlib import Path

ARCHIVE_SUFFIX: Final = ".msmemscope"
"""Ends the names of archives: no other program opens them, and those that open ZIP files can still look inside."""

ARCHIVE_VERSION: Final = 1
"""Newest version of the archive that this reader knows."""

MIME_TYPE: Final = b"application/vnd.msmemscope.archive"
MIME_TYPE_MEMBER: Final = "mimetype"
DESCRIPTION: Final = "archive.json"
EVENTS: Final = "events"
DEFINITIONS: Final = {False: "definitions/little", True: "definitions/big"}
"""By whether they are in big-endian order."""
NATIVE_FRAMES: Final = "native_frames"

BLOCK_ROWS: Final = MOST_ROWS
"""Records of a piece; only the last one has fewer."""
PART_BYTES: Final = MOST_ROWS
"""Bytes of a piece of bytes; likewise."""
BYTES_COLUMN: Final = "bytes"

_ZIP_MAGIC: Final = b"PK\x03\x04"
_LOCAL_HEADER_BYTES: Final = 30
ARCHIVE_MARK: Final = Mark(begin=_ZIP_MAGIC, near_begin=MIME_TYPE_MEMBER.encode() + MIME_TYPE)
_BEGIN_BYTES: Final = 256
_MOST_FOLD: Final = 1_000
"""How many times its size an archive may unpack to. That of a run has a sixtieth of its events' bytes, or more."""
_SMALL_BYTES: Final = 1 << 26
"""The size that any archive may unpack to."""
_MOST_NAME: Final = 255
_NO_NAMES: Final = frozenset({"", ".", ".."})
_UNNAMED: Final = "capture"
_VERSION: Final = "version"


class DescriptionError(Exception):
    """The description of an archive is not what it should be."""


def begins_like_archive(start: bytes) -> bool:
    """Whether a file with this beginning is an archive."""
    member = MIME_TYPE_MEMBER.encode() + MIME_TYPE
    return start.startswith(_ZIP_MAGIC) and start[_LOCAL_HEADER_BYTES:].startswith(member)


def is_archive(path: Path) -> bool:
    """Whether there is a file at a path that begins like an archive."""
    try:
        # Not blocking: it may be a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return False
    try:
        return stat.S_ISREG(os.fstat(descriptor).st_mode) and begins_like_archive(os.read(descriptor, _BEGIN_BYTES))
    except OSError:
        return False
    finally:
        os.close(descriptor)


def folder_name(name: str) -> str:
    """Return a name as the folder of a capture can have it everywhere: letters that cannot be shown are `_`."""
    shown = "".join(letter if letter.isprintable() and letter != "/" else "_" for letter in name)[:_MOST_NAME]
    return _UNNAMED if shown in _NO_NAMES else shown


def piece_name(content: str, number: int) -> str:
    """Return the name of a piece of some content, counted from 0."""
    return f"{content}/{number:06}.arrow"


@dataclasses.dataclass(frozen=True)
class Description:
    """The description of an archive, stored in it."""

    capture: str
    """Name of the directory of the process."""
    events: int
    """How many records there are."""
    definitions_little: int
    """Bytes of the definitions that are in little-endian order."""
    definitions_big: int
    """And in big-endian order."""
    native_frames: int
    """Bytes of the texts of native frames."""
    was_running: bool
    """Whether the process was still running."""
    problems: tuple[str, ...]
    """The parts of the event log that had to be left out."""

    def to_json(self) -> bytes:
        """Return its text."""
        return json.dumps({_VERSION: ARCHIVE_VERSION, **dataclasses.asdict(self)}, indent=1).encode()

    def definitions(self, *, big_endian: bool) -> int:
        """Return the bytes of the definitions in one order."""
        return self.definitions_big if big_endian else self.definitions_little


def read_description(content: bytes, file_bytes: int) -> Description:
    """Read the description of an archive.

    Args:
        content: The member.
        file_bytes: Size of the archive: what it claims to hold must be possible.

    Raises:
        DescriptionError: It is damaged, or of a newer version.
    """
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        message = f"{DESCRIPTION} is no JSON: {error}"
        raise DescriptionError(message) from error
    if not isinstance(values, dict):
        message = f"{DESCRIPTION} is no object"
        raise DescriptionError(message)
    version = values.pop(_VERSION, None)
    if version != ARCHIVE_VERSION:
        message = f"it has archive version {version!r:.40}; this msmemscope reads version {ARCHIVE_VERSION}"
        raise DescriptionError(message)
    found = {field.name: _checked(field.name, field.type, values.get(field.name)) for field in _FIELDS}
    description = Description(**found)
    unpacked = description.events * RECORD.itemsize + sum(
        found[name] for name in ("definitions_little", "definitions_big", "native_frames")
    )
    if unpacked > max(file_bytes * _MOST_FOLD, _SMALL_BYTES):
        message = f"its {file_bytes} bytes claim to be {unpacked}"
        raise DescriptionError(message)
    return description


_FIELDS: Final = dataclasses.fields(Description)


def _checked(name: str, wanted: object, value: Any) -> Any:
    is_right = {
        "int": type(value) is int and value >= 0,
        "bool": type(value) is bool,
        "str": isinstance(value, str) and value == folder_name(value),
        "tuple[str, ...]": isinstance(value, list) and all(isinstance(one, str) for one in value),
    }[str(wanted)]
    if not is_right:
        message = f"{DESCRIPTION} says {name}: {value!r:.80}"
        raise DescriptionError(message)
    return tuple(value) if isinstance(value, list) else value
