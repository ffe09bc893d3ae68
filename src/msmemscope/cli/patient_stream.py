"""A stderr on which nobody's reading is waited for without end."""

from __future__ import annotations

import io
import os
import select
import stat
import sys
import time

_PATIENCE_SECONDS = 5.0
"""How long a reader may take until there is room for more of our text."""


def make_stderr_patient() -> None:
    """Drop output to stderr once nobody has read from it for a while.

    A program that ends does not wait for whoever holds the other end of its stderr, so neither do we after it has ended.
    Terminals and files stay as they are.
    """
    try:
        descriptor = sys.stderr.fileno()
        kind = os.fstat(descriptor).st_mode
    except (OSError, ValueError):
        return
    if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
        raw = _PatientStream(descriptor)
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(raw), encoding=sys.stderr.encoding, errors=sys.stderr.errors, line_buffering=True
        )


class _PatientStream(io.RawIOBase):
    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._has_given_up = False
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]
        # A pipe that can be written to has room for this much.
        piece = memoryview(data)[: select.PIPE_BUF]
        if not self._has_given_up and not self._has_room():
            self._has_given_up = True
        return len(piece) if self._has_given_up else os.write(self._descriptor, piece)

    def _has_room(self) -> bool:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            left = deadline - time.monotonic()
            if self._poll.poll(max(left, 0) * 1000):
                return True
            if left <= 0:
                return False
