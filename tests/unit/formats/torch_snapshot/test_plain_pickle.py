"""Pickles of plain data: read as Python reads them, and walked over as Python walks over them."""

from __future__ import annotations

import pickle
import pickletools
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from msmemscope.errors import InputError
from msmemscope.formats.torch_snapshot.plain_pickle import read_plain_pickle

PLAIN = {
    "PROTO", "FRAME", "MARK", "POP", "POP_MARK", "DUP", "NONE", "NEWTRUE", "NEWFALSE", "EMPTY_DICT", "EMPTY_LIST",
    "EMPTY_TUPLE", "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE",
    "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET", "LONG_BINGET",
    "SETITEM", "SETITEMS", "APPEND", "APPENDS", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "STOP",
}  # fmt: skip
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(max_size=300)
)
data = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner) | st.lists(inner).map(tuple)
    ),
    max_leaves=40,
)


def read(content: bytes) -> Any:
    """Reads a pickle from a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(content)
        return read_plain_pickle(path).value


@given(data, st.integers(3, 5))
def test_plain_data_is_read(value: object, protocol: int) -> None:
    """And nothing of what lies behind its end. (Protocol 2 has bytes only as a call, and that is refused)."""
    assert read(pickle.dumps(value, protocol) + b"cos\nsystem\n") == value


@given(data, st.integers(2, 5), st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=4))
def test_what_is_read_holds_only_plain_opcodes(value: object, protocol: int, changes: list[tuple[int, int]]) -> None:
    """However a file is damaged: if it is read, the walk of the standard library finds nothing else in it either."""
    content = bytearray(pickle.dumps(value, protocol))
    for place, byte in changes:
        content[place % len(content)] = byte
    try:
        found = read(bytes(content))
    except InputError:
        return
    assert {opcode.name for opcode, _, _ in pickletools.genops(bytes(content))} <= PLAIN
    assert repr(found) == repr(pickle.loads(bytes(content)))  # noqa: S301 - it was seen to be plain


def test_long_pickles_of_old_protocols_are_read() -> None:
    """Numbers of the memo of four bytes, and more opcodes than are walked over at once."""
    value = [{"address": (1 << 40) + place, "frames": [str(place)]} for place in range(70_000)]
    for protocol in (2, 4):
        assert read(pickle.dumps(value, protocol)) == value
