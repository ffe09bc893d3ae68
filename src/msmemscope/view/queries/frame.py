"""An answer with many numbers: a table, and the facts about it.

How the bytes lie is in `ui/PROTOCOL.md`.
"""

from __future__ import annotations

import dataclasses
import io
import json
import struct
from typing import TYPE_CHECKING, Any, Final

import polars as pl

if TYPE_CHECKING:
    from typing_extensions import Self

MEDIA_TYPE: Final = "application/vnd.msmemscope.frame"
_LENGTH: Final = struct.Struct("<I")


@dataclasses.dataclass(frozen=True, eq=False)
class Frame:
    """A table and the facts about it."""

    info: dict[str, Any]
    """The facts, in types that JSON takes."""
    table: pl.DataFrame

    def to_bytes(self) -> bytes:
        """Return it as it is sent."""
        info = json.dumps(self.info).encode()
        stream = io.BytesIO()
        # Readers in browsers know the older kinds of texts.
        self.table.write_ipc_stream(stream, compat_level=pl.CompatLevel.oldest())
        return b"".join((_LENGTH.pack(len(info)), info, stream.getvalue()))

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Read the bytes of `to_bytes`."""
        (length,) = _LENGTH.unpack_from(content)
        begin = _LENGTH.size + length
        return cls(json.loads(content[_LENGTH.size : begin]), pl.read_ipc_stream(io.BytesIO(content[begin:])))
