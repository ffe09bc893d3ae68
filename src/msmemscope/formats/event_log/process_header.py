"""The header of a capture: who wrote it, how to read it, what was lost."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from msmemscope.errors import EventLogError
from msmemscope.formats.event_log.layout import (
    BYTE_ORDER_MARK,
    FORMAT_VERSION,
    PROCESS_HEADER,
    PROCESS_MAGIC,
    RECORD,
    CaptureState,
    in_byte_order,
)

CAPTURE_DIRECTORY_NAME: Final = re.compile(r"msmemscope_(?P<process_id>\d+)_(?P<timestamp>\d+)_ascend")
"""Name of the directory of one observed process."""

_OLDEST_HEADER_BYTES: Final = 152
"""Size of the header in format version 1; later ones only append."""


@dataclass(frozen=True)
class ProcessHeader:
    """Fields of `native/core/format/process_header.h`, in its order and under its names."""

    format_version: int
    header_bytes: int
    record_bytes: int
    state: CaptureState
    process_id: int
    """0 if not known."""
    parent_process_id: int
    start_ns: int
    """CLOCK_REALTIME when the capture was opened."""
    end_ns: int
    """CLOCK_REALTIME when it was closed, 0 if it was not."""
    process_start_ticks: int
    """Field 22 of `/proc/PID/stat`."""
    session: int
    """The launch that the process belongs to, 0 if it was not launched."""
    failure_errno: int
    """errno of the failure that stopped recording, 0 if none."""
    python_version_hex: int
    """`sys.hexversion` of the process, 0 if it had no Python."""
    dropped_reentrant: int
    """Events not recorded because they happened inside the tool or a signal handler."""
    dropped_failure: int
    """Events not recorded after a write failure."""
    dropped_recycled: int
    """Events overwritten by the flight recorder."""
    lost_definitions: int
    """Ids that were used while their table was full."""
    untracked_blocks: int
    """Blocks not followed because the table of live blocks was full."""
    tool_memory_bytes: int
    """Memory of the tool inside the process, at the last growth."""
    tool_memory_limit_bytes: int
    """The most that the tool's tables could ever take."""
    maximum_log_bytes: int
    """Cap of the event log, 0 if none."""
    log_bytes: int
    """Bytes of segments."""


@dataclass(frozen=True)
class DecodedHeader:
    """A process header and how the files beside it are to be read."""

    header: ProcessHeader
    big_endian: bool
    """Byte order of the writer."""
    is_complete: bool
    """False if the process was killed before its header was written, so that it was pieced together."""
    content: bytes
    """The bytes that it was read from."""


def byte_order_of(mark: bytes) -> bool | None:
    """Tell the byte order from the eight bytes of a byte order mark.

    Returns:
        True for big-endian, False for little-endian, None if it is no such mark.
    """
    if mark == BYTE_ORDER_MARK.to_bytes(8, "little"):
        return False
    if mark == BYTE_ORDER_MARK.to_bytes(8, "big"):
        return True
    return None


def check_version(version: int, path: Path) -> None:
    """Refuse a format that this reader does not know.

    Raises:
        EventLogError: the version is newer than ours, or none at all.
    """
    if version > FORMAT_VERSION:
        message = (
            f"{path} has event log format version {version}; this msmemscope reads versions up to {FORMAT_VERSION}"
        )
        raise EventLogError(message, hint="read it with the msmemscope that recorded it, or a newer one")
    if version < 1:
        message = f"{path} has event log format version {version}; versions from 1 to {FORMAT_VERSION} exist"
        raise EventLogError(message, hint="the file is damaged")


def decode_process_header(content: bytes, path: Path) -> DecodedHeader:
    """Read the bytes of `process.header`.

    The first word of the file is written last. If it is missing, the process was killed right at its start. Then the
    name of its directory is used instead.

    Args:
        content: The first bytes of the file.
        path: The file, for messages and for the process id in its directory's name.

    Raises:
        EventLogError: the file is not a header, or one of a newer version.
    """
    if not content[:8].strip(b"\0"):
        return DecodedHeader(
            _header_from_directory_name(path), sys.byteorder == "big", is_complete=False, content=content
        )
    big_endian = byte_order_of(content[8:16])
    order = "big" if big_endian else "little"
    if big_endian is None or content[:8] != PROCESS_MAGIC.to_bytes(8, order):  # type: ignore[arg-type]
        message = f"{path} is not the header of an event log: it begins with {content[:8]!r}, not b'MSMSCOPE'"
        raise EventLogError(message)
    if len(content) < _OLDEST_HEADER_BYTES:
        message = f"{path} has {len(content)} bytes; a header has at least {_OLDEST_HEADER_BYTES}"
        raise EventLogError(message, hint="the file was cut short; copy it again from where it was recorded")
    dtype = in_byte_order(PROCESS_HEADER, big_endian=big_endian)
    # Fields that an older version did not have yet read as 0.
    row = np.frombuffer(content[: dtype.itemsize].ljust(dtype.itemsize, b"\0"), dtype=dtype)[0]
    values = {name: int(row[name]) for name in dtype.names or () if name not in {"magic", "byte_order_mark"}}
    check_version(values["format_version"], path)
    if values["record_bytes"] != RECORD.itemsize:
        message = f"{path} says that a record has {values['record_bytes']} bytes; version 1 has {RECORD.itemsize}"
        raise EventLogError(message, hint="the file is damaged")
    try:
        state = CaptureState(values.pop("state"))
    except ValueError as error:
        message = f"{path} has an unknown capture state: {error}"
        raise EventLogError(message, hint="the file is damaged") from error
    return DecodedHeader(ProcessHeader(state=state, **values), big_endian, is_complete=True, content=content)


def is_process_alive(header: ProcessHeader) -> bool:
    """Tell whether the process that writes a capture is still alive (on this machine)."""
    return header.state == CaptureState.OPEN and is_same_process(header)


def is_same_process(header: ProcessHeader) -> bool:
    """Tell whether the process that a capture is of is alive on this machine, whether it still writes or not."""
    if header.process_start_ticks == 0:
        return False
    try:
        content = Path(f"/proc/{header.process_id}/stat").read_bytes()
    except OSError:
        return False
    # The second field is the program's name in parentheses, which may hold anything.
    fields = content[content.rfind(b")") + 1 :].split()
    start_ticks_index = 19  # field 22, counted from field 3
    if len(fields) <= start_ticks_index or fields[0] in {b"Z", b"X"}:
        return False  # it has ended; only its parent has not looked yet
    return int(fields[start_ticks_index]) == header.process_start_ticks


def _header_from_directory_name(path: Path) -> ProcessHeader:
    match = CAPTURE_DIRECTORY_NAME.fullmatch(path.parent.parent.name)
    return ProcessHeader(
        format_version=FORMAT_VERSION,
        header_bytes=PROCESS_HEADER.itemsize,
        record_bytes=RECORD.itemsize,
        state=CaptureState.OPEN,
        process_id=int(match["process_id"]) if match else 0,
        parent_process_id=0,
        start_ns=0,
        end_ns=0,
        process_start_ticks=0,
        session=0,
        failure_errno=0,
        python_version_hex=0,
        dropped_reentrant=0,
        dropped_failure=0,
        dropped_recycled=0,
        lost_definitions=0,
        untracked_blocks=0,
        tool_memory_bytes=0,
        tool_memory_limit_bytes=0,
        maximum_log_bytes=0,
        log_bytes=0,
    )
