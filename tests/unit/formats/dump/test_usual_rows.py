"""The fast reader of CSV rows says what the patient one says, or nothing."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.formats.dump.columns import COLUMNS
from msmemscope.formats.dump.csv_reader import _PieceReader
from msmemscope.formats.dump.row_reader import TEXT_COLUMNS
from msmemscope.formats.dump.usual_rows import usual_rows
from tests.support.nightly import examples

if TYPE_CHECKING:
    from msmemscope.formats.dump.row_reader import DumpPiece

ROW = ["7", "MALLOC", "PTA", "N/A", "1700000000000001000", "42", "43", "0", "0x0000000000010000", "", "", ""]
BLOCK = "{allocation_id:7,addr:0x0000000000010000,size:512"

ATTRIBUTES = [
    "",
    "{}",
    f"{BLOCK}}}",
    f"{BLOCK},total:1024,used:512}}",
    f"{BLOCK},used:512,total:1024,process_used:5,device_used:-1}}",
    f"{BLOCK},used:512,page_type:huge,alloc_type:alloc,MID:3}}",
    f"{BLOCK},pinned:true,used:1}}",
    f"{BLOCK},pinned:false,total:3}}",
    f"{BLOCK},pinned:maybe}}",
    f"{BLOCK},used:,total:3}}",
    f"{BLOCK},owner:model@layer,1: 2,inefficient_type:early_allocation}}",
    f"{BLOCK},type:PTA,dtype:torch.float32,shape:torch.Size([2, 1024])}}",
    f"{BLOCK},shadow:true}}",
    f"{BLOCK},user: 5}}",
    f"{BLOCK}, used:5}}",
    f"{BLOCK},used:5}}}}",
    f"{BLOCK}",
    f"{BLOCK},",
    "{allocation_id:7,addr:0x10,size:-512,used:3}",
    "{allocation_id:7,addr:0x10,size:99999999999999999999}",
    "{allocation_id:7,addr:10,size:5}",
    "{addr:0x10,size:5,allocation_id:3}",
    "{addr:0x10,size:5,used:7,owner:a}",
    "{streamId:2,taskId:9}",
    "{streamId:2,taskId:9,blockDim:4}",
    "{streamId:4294967297,taskId:9}",
    "{req_size:4096,func:halMemAlloc}",
    '{"allocation_id":"7","addr":"0x10","size":"5"}',
    'say "hello", {all}',
    "free text, with: colons",
]
FIELDS = {
    "ID": ["0", "1", "007", "18446744073709551616", "9223372036854775807", "9223372036854775808", "x", ""],
    "Event": ["FREE", "ACCESS", "OP_LAUNCH", "MSTX", "KERNEL_LAUNCH", "SYSTEM", "SOMETHING", "malloc", "", "a,b"],
    "Event Type": ["HAL", "PTA", "HOST_PINNED", "WRITE", "UNKNOWN", "ATEN_START", "Range_end", "Mark", "Step", ""],
    "Name": ["N/A", "", "torch._ops.aten.add.Tensor", "Range end from id 3", "4", "a,b", 'a "b"', "two\nlines", "ä\x00", "1,2\n3"],
    "Timestamp(ns)": ["0", "-5", "12.5", "99999999999999999999"],
    "Process Id": ["N/A", "4294967296", "", "1"],
    "Thread Id": ["N/A", "4294967296", "77"],
    "Device Id": ["N/A", "cpu", "1", "npu:1", "300", ""],
    "Ptr": ["N/A", "", "0x10", "0xFFFFFFFFFFFFFFFF", "0x1FFFFFFFFFFFFFFFF", "65536", "12c000000000", "0x"],
    "Attr": ATTRIBUTES,
    "Call Stack(Python)": ['File "a.py", line 3, in f\nFile "b.py", line 9, in g\n', "NA", "one", "5,A,B\n6,MALLOC,PTA,", "x\r\ny"],
    "Call Stack(C)": ["libc.so.6(malloc+0x10)\nmain\n", "N/A"],
}  # fmt: skip

_NAMES = list(COLUMNS)


def _changed(row: list[str], changes: dict[str, str]) -> list[str]:
    return [changes.get(name, field) for name, field in zip(_NAMES, row, strict=True)]


rows = st.lists(
    st.builds(
        _changed,
        st.builds(lambda attributes: _changed(ROW, {"Attr": attributes}), st.sampled_from(ATTRIBUTES)),
        st.dictionaries(st.sampled_from(_NAMES), st.nothing())
        | st.sampled_from(_NAMES).flatmap(lambda name: st.fixed_dictionaries({name: st.sampled_from(FIELDS[name])}))
        | st.fixed_dictionaries({}, optional={name: st.sampled_from(texts) for name, texts in FIELDS.items()}),
    ),
    min_size=1,
    max_size=6,
)


def content_of(table: list[list[str]]) -> bytes:
    """The rows as CSV."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(table)
    return file.getvalue().encode()


def meaning(piece: DumpPiece) -> pl.DataFrame:
    """Rows with their texts, which both readers number as they like."""
    if piece.rows.is_empty():
        return pl.DataFrame()
    texts = (
        pl.Series(name, ["", *piece.texts[name]], dtype=pl.String).gather(piece.rows[name]).alias(name)
        for name in TEXT_COLUMNS
    )
    frame = piece.rows.with_columns(*texts)
    return frame.select(sorted(frame.columns))


def compare(content: bytes) -> bool:
    """Compares both readers; whether the fast one had an answer."""
    fast = usual_rows(content, len(content))
    if fast is None:
        return False
    slow = patient(content)
    assert slow.problems.lines() == []
    assert fast.unknown == slow.unknown
    found, expected = meaning(fast), meaning(slow)
    assert found.schema == expected.schema
    assert found.equals(expected), f"{found.to_dicts()}\n{expected.to_dicts()}"
    return True


def patient(content: bytes) -> DumpPiece:
    """The rows that the patient reader finds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("msmemscope.formats.dump.csv_reader.usual_rows", lambda *_: None)
        return _PieceReader([*COLUMNS]).read(bytearray(content), len(content), 2)


@examples(by_day=40)
@given(rows)
def test_it_says_the_same(table: list[list[str]]) -> None:
    """Rows of every kind, with something strange in some field."""
    compare(content_of(table))


@examples(by_day=40)
@given(rows, st.data())
def test_it_says_the_same_of_damaged_rows(table: list[list[str]], data: st.DataObject) -> None:
    """A byte more, less or other than it should be."""
    content = bytearray(content_of(table))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        replacement = data.draw(st.sampled_from([b"", b'"', b",", b"\n", b"\r", b"0", b"a", b"}", b":", b" ", b"\xff"]))
        content[place : place + data.draw(st.integers(0, 1))] = replacement
    if content.endswith(b"\n"):
        compare(bytes(content))


@pytest.mark.parametrize("attributes", ATTRIBUTES)
def test_attributes_one_by_one(attributes: str) -> None:
    """Each way to write attributes."""
    compare(content_of([_changed(ROW, {"Attr": attributes})]))


@pytest.mark.parametrize(
    "changes",
    [
        {"Attr": f"{BLOCK},used:512,owner:a, b: c}}"},
        {"Event": "MSTX", "Event Type": "Range_end", "Name": "Range end from id 3", "Ptr": "N/A"},
        {"Event": "KERNEL_LAUNCH", "Event Type": "KERNEL_LAUNCH", "Attr": "{streamId:2,taskId:9}", "Ptr": "N/A"},
        {"Event": "OP_LAUNCH", "Event Type": "ATEN_START", "Name": 'an "operator", quoted', "Ptr": "N/A"},
        {"Call Stack(Python)": 'File "a.py", line 3, in f\n', "Attr": f"{BLOCK}}}"},
        {"Event": "SYSTEM", "Event Type": "OOM", "Attr": "{req_size:4096,func:halMemAlloc}", "Ptr": "N/A"},
    ],
)
def test_it_has_an_answer(changes: dict[str, str]) -> None:
    """Rows that are as usual are not left to the other reader."""
    assert compare(content_of([_changed(ROW, changes)]))


def test_nothing_is_hidden() -> None:
    """A row that must be reported with its line makes the piece one for the patient reader."""
    content = content_of([_changed(ROW, {"Attr": f"{BLOCK}}}"}), _changed(ROW, {"Attr": "{}"})])
    assert usual_rows(content, len(content)) is None
    piece = patient(content)
    assert piece.problems.lines() == ["line 3: its Attr has no size"]
