"""Profiles for pprof: gzip'ed `profile.proto`, with the bytes and blocks of each stack.

The messages are described in https://github.com/google/pprof/blob/main/proto/profile.proto. Samples have the device, the
pool and the owner as labels (`pprof -tagfocus`, `-tagroot`).
"""

from __future__ import annotations

import gzip
import io
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from msmemscope.analysis.weights.weighted_stacks import StackFrame, weighted_stacks
from msmemscope.formats.export.protobuf import bytes_field, number_field, packed_field, text_field
from msmemscope.formats.export.tracks import pool_name
from msmemscope.formats.output_place import Mark
from msmemscope.model.devices import device_name
from msmemscope.model.pools import pool_word

if TYPE_CHECKING:
    from msmemscope.formats.export.export_choice import ExportChoice, Write
    from msmemscope.recording import Recording

SAMPLE_TYPES: Final = {
    "peak_blocks": ("peak_objects", "count"),
    "peak_bytes": ("peak_space", "bytes"),
    "leaked_blocks": ("leaked_objects", "count"),
    "leaked_bytes": ("leaked_space", "bytes"),
    "allocated_blocks": ("alloc_objects", "count"),
    "allocated_bytes": ("alloc_space", "bytes"),
    "byte_seconds": ("held", "byte-seconds"),
}
"""Columns of weights, and the name and unit of their values."""
_DEFAULT: Final = "peak_space"
_PIECE_BYTES: Final = 1 << 20
_NAME_INSIDE: Final = "msmemscope.pb"
PPROF_MARK: Final = Mark(begin=b"\x1f\x8b", near_begin=_NAME_INSIDE.encode() + b"\0")
"""The name that gzip notes of the file before it was packed."""


class _Profile(IntEnum):
    """Fields of `Profile`."""

    SAMPLE_TYPE = 1
    SAMPLE = 2
    LOCATION = 4
    FUNCTION = 5
    STRING_TABLE = 6
    TIME_NANOS = 9
    DURATION_NANOS = 10
    COMMENT = 13
    DEFAULT_SAMPLE_TYPE = 14


def write_pprof(recording: Recording, write: Write, choice: ExportChoice) -> tuple[str, ...]:
    """Write a profile for pprof. The outermost frame is the pool: memory of the driver holds that of the other pools."""
    found = weighted_stacks(recording)
    texts: dict[str, int] = {"": 0}
    locations: dict[StackFrame, int] = {}

    def number(text: str) -> int:
        return texts.setdefault(text, len(texts))

    def location(frame: StackFrame) -> int:
        return locations.setdefault(frame, len(locations) + 1)

    packed = io.BytesIO()
    # Without a time of its own, the same recording gives the same file.
    with gzip.GzipFile(_NAME_INSIDE, fileobj=packed, mode="wb", mtime=0) as profile:
        for name, unit in SAMPLE_TYPES.values():
            profile.write(
                bytes_field(_Profile.SAMPLE_TYPE, number_field(1, number(name)) + number_field(2, number(unit)))
            )
        keys = [number(word) for word in ("device", "pool", "owner")]
        innermost_first = [tuple(location(frame) for frame in reversed(stack)) for stack in found.stacks]
        for device, pool, owner, stack, *values in found.weights.select(
            "device", "pool", "owner", "stack", *SAMPLE_TYPES
        ).iter_rows():
            root = location(StackFrame(pool_name(device, pool), "", 0))
            sample = packed_field(1, (*innermost_first[stack], root)) + packed_field(2, values)
            for key, word in zip(keys, (device_name(device), pool_word(pool, device), owner), strict=True):
                sample += bytes_field(3, number_field(1, key) + number_field(2, number(word)))
            profile.write(bytes_field(_Profile.SAMPLE, sample))
            if packed.tell() > _PIECE_BYTES:
                write(packed.getvalue())
                packed.seek(0)
                packed.truncate()
        # A line of a function is a location; functions are told apart by their file and name.
        functions: dict[tuple[str, str], int] = {}
        for frame, identity in locations.items():
            function = functions.setdefault((frame.function, frame.file), len(functions) + 1)
            line = bytes_field(4, number_field(1, function) + number_field(2, frame.line))
            profile.write(bytes_field(_Profile.LOCATION, number_field(1, identity) + line))
        for (name, file), identity in functions.items():
            names = number_field(2, number(name)) + number_field(3, number(name)) + number_field(4, number(file))
            profile.write(bytes_field(_Profile.FUNCTION, number_field(1, identity) + names))
        times = recording.events["timestamp_ns"].to_numpy()
        begin, end = (int(times.min()), int(times.max())) if len(times) else (0, 0)
        last = number_field(_Profile.TIME_NANOS, begin) + number_field(_Profile.DURATION_NANOS, end - begin)
        last += number_field(_Profile.COMMENT, number(choice.title))
        last += number_field(_Profile.DEFAULT_SAMPLE_TYPE, number(_DEFAULT))
        profile.write(last)
        for text in texts:
            profile.write(text_field(_Profile.STRING_TABLE, text))
    write(packed.getvalue())
    return ()
