"""Every kind of event has its words, name and attributes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from msmemscope.configuration import DataFormat
from msmemscope.model.cell_texts import text_of_cell
from msmemscope.model.devices import device_word
from msmemscope.model.events import EVENT_TYPE_WORDS, EVENT_WORDS, MEMORY_KINDS, ROWLESS_KINDS, EventFlag, EventKind
from msmemscope.model.pools import POOL_WORDS, Pool
from tests.fakes.event_log_builder import EventLogBuilder
from tests.unit.formats.dump.conftest import csv_rows, db_rows

if TYPE_CHECKING:
    from tests.unit.formats.dump.conftest import Dump

POINTER = "0x0000000000000abc"
BLOCK = f"allocation_id:1,addr:{POINTER},size:64"

CASES = [
    # kind, fields, name, attributes -> Event, Event Type, Name, Attr
    ("MALLOC", {"pool": Pool.HOST}, "op", "", "MALLOC", "HOST", "N/A", f"{BLOCK},total:64"),
    ("MALLOC", {"pool": Pool.PTA, "device": 0}, "op", "", "MALLOC", "PTA", "N/A", f"{BLOCK},used:64"),
    ("MALLOC", {"pool": Pool.PTA_WORKSPACE, "device": 0}, "", "", "MALLOC", "PTA_WORKSPACE", "N/A", f"{BLOCK},used:64"),
    ("MALLOC", {"pool": Pool.MIND_SPORE, "device": 0}, "", "", "MALLOC", "MINDSPORE", "N/A", f"{BLOCK},used:64"),
    ("MALLOC", {"pool": Pool.ATB, "device": 0}, "", "A@b", "MALLOC", "ATB", "N/A", f"{BLOCK},used:64"),
    ("MALLOC", {"pool": Pool.HAL, "device": 0}, "", "CANN@x", "MALLOC", "HAL", "N/A", f"{BLOCK},used:64"),
    (
        "MALLOC", {"pool": Pool.HAL, "device": 0}, "", "CANN@x,page_type:huge,alloc_type:create",
        "MALLOC", "HAL", "N/A", f"{BLOCK},used:64,page_type:huge,alloc_type:create",
    ),
    (
        "MALLOC", {"pool": Pool.HAL, "device": 0}, "", "page_type:normal,alloc_type:alloc",
        "MALLOC", "HAL", "N/A", f"{BLOCK},used:64,page_type:normal,alloc_type:alloc",
    ),
    ("MALLOC", {"pool": Pool.HAL, "device": -2}, "", "", "MALLOC", "HOST", "N/A", f"{BLOCK},pinned:true,used:64"),
    (
        "FREE", {"pool": Pool.HAL, "device": -2}, "", "",
        "FREE", "HOST", "N/A", f"allocation_id:0,addr:{POINTER},size:64,pinned:true,used:0",
    ),
    (
        "MALLOC", {"pool": Pool.PTA, "device": 0, "flags": EventFlag.SHADOW}, "", "",
        "MALLOC", "PTA", "N/A", f"{BLOCK},used:64,shadow:true",
    ),
    ("MALLOC", {"pool": 99}, "", "", "MALLOC", "N/A", "N/A", BLOCK),
    ("FREE", {"pool": Pool.HOST, "extra": 7}, "", "", "FREE", "HOST", "N/A", f"allocation_id:7,addr:{POINTER},size:64,total:-64"),
    ("FREE", {"pool": Pool.HOST, "flags": 1}, "", "", "FREE", "HOST", "N/A", f"allocation_id:0,addr:{POINTER},size:64,total:0,shadow:true"),
    (
        "ACCESS_READ", {"pool": Pool.PTA, "extra": 1}, "aten.add", "dtype:torch.float32,shape:torch.Size([32, 10])",
        "ACCESS", "READ", "aten.add", f"{BLOCK},type:PTA,dtype:torch.float32,shape:torch.Size([32, 10])",
    ),
    (
        "ACCESS_WRITE", {"pool": Pool.ATB, "extra": 1}, "k", "dtype:ACL_FLOAT16,format:ACL_FORMAT_ND,shape:[1,2,]",
        "ACCESS", "WRITE", "k", f"{BLOCK},type:ATB,dtype:ACL_FLOAT16,format:ACL_FORMAT_ND,shape:[1,2,]",
    ),
    ("ACCESS_UNKNOWN", {}, "k", "", "ACCESS", "UNKNOWN", "k", f"allocation_id:0,addr:{POINTER},size:64"),
    ("ATEN_START", {}, "aten.add", "", "OP_LAUNCH", "ATEN_START", "aten.add", ""),
    ("ATEN_END", {}, "aten.add", "", "OP_LAUNCH", "ATEN_END", "aten.add", ""),
    (
        "ATB_START", {}, "Linear", "path:0_1/0_Graph,workspace_ptr:0x12,workspace_size:5",
        "OP_LAUNCH", "ATB_START", "Linear", "path:0_1/0_Graph,workspace_ptr:0x12,workspace_size:5",
    ),
    ("ATB_END", {}, "Linear", "", "OP_LAUNCH", "ATB_END", "Linear", ""),
    ("KERNEL_LAUNCH", {"extra": 3 << 32 | 9}, "k", "", "KERNEL_LAUNCH", "KERNEL_LAUNCH", "k", "streamId:3,taskId:9"),
    ("KERNEL_EXECUTE_START", {"extra": 1}, "k", "", "KERNEL_LAUNCH", "KERNEL_EXECUTE_START", "k", "streamId:0,taskId:1"),
    ("KERNEL_EXECUTE_END", {"extra": 1 << 32}, "k", "", "KERNEL_LAUNCH", "KERNEL_EXECUTE_END", "k", "streamId:1,taskId:0"),
    ("KERNEL_START", {}, "k", "path:a/b:c", "KERNEL_LAUNCH", "KERNEL_START", "k", "path:a/b:c"),
    ("KERNEL_END", {}, "", "", "KERNEL_LAUNCH", "KERNEL_END", "N/A", ""),
    ("MARK", {}, 'say "hi", you', "", "MSTX", "Mark", 'say "hi", you', ""),
    ("MARK", {}, "=SUM(A1)", "", "MSTX", "Mark", "=SUM(A1)", ""),
    ("MARK", {}, "-1", "", "MSTX", "Mark", "-1", ""),
    ("MARK", {}, "", "", "MSTX", "Mark", "", ""),
    ("RANGE_START", {"extra": 4}, "step start", "", "MSTX", "Range_start", "step start", ""),
    ("RANGE_END", {"extra": 4}, "", "", "MSTX", "Range_end", "Range end from id 4", ""),
    ("ACL_INIT", {"device": -1}, "", "", "SYSTEM", "ACL_INIT", "N/A", ""),
    ("ACL_FINI", {"device": -1}, "", "", "SYSTEM", "ACL_FINI", "N/A", ""),
    ("START_TRACE", {"device": -1}, "", "free:10,total:20", "SYSTEM", "START_TRACE", "N/A", "free:10,total:20"),
    ("STOP_TRACE", {"device": -1}, "", "", "SYSTEM", "STOP_TRACE", "N/A", ""),
    ("STEP", {"size": 12}, "", "", "SYSTEM", "STEP", "12", ""),
    ("SNAPSHOT", {}, "Memory Snapshot", "reserved:1", "SNAPSHOT", "SNAPSHOT", "Memory Snapshot", "reserved:1"),
    ("SNAPSHOT", {}, "@x", "", "SNAPSHOT", "SNAPSHOT", "@x", ""),
    (
        "OOM", {"device": 0, "extra": 1}, "halMemAlloc", "func:halMemAlloc,req_size:64,flag:3",
        "OOM_DETAIL", "OOM_TRIGGER", "OOM_Trigger", "func:halMemAlloc,req_size:64,flag:3",
    ),
]  # fmt: skip
COLUMNS = ("Event", "Event Type", "Name", "Attr")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[2]}-{case[5]}")
def test_row_of_each_kind(
    builder: EventLogBuilder, dump: Dump, case: tuple[str, dict[str, int], str, str, str, str, str, str]
) -> None:
    """Words, name and attributes are those of the specification, in CSV and in DB files."""
    kind, fields, name, attributes, *expected = case
    has_address = expected[0] in {"MALLOC", "FREE", "ACCESS"}
    builder.add(
        EventKind[kind],
        name_id=builder.string(name) if name else 0,
        attribute_id=builder.string(attributes) if attributes else 0,
        **({"address": 0xABC, "size": 64} if has_address else {}),
        **fields,
    )
    (row,) = csv_rows(dump(DataFormat.CSV).csv_files[0])
    row["Name"] = text_of_cell(row["Name"])
    assert [row[column].strip("{}") for column in COLUMNS] == expected
    assert row["Ptr"] == (POINTER if has_address else "N/A")
    assert row["Device Id"] == device_word(fields.get("device", -2))
    (entry,) = db_rows(dump(DataFormat.DB).db_files[0])
    assert [entry[column] for column in COLUMNS[:3]] == expected[:3]
    values = json.loads(entry["Attr"])
    assert all(isinstance(value, str) for value in values.values())
    assert ",".join(f"{key}:{value}" for key, value in values.items()) == expected[3]


def test_every_kind_is_tested() -> None:
    """A kind that is added needs its words, and its case above."""
    rows = set(EventKind) - {EventKind.NONE, *ROWLESS_KINDS}
    assert {EventKind[case[0]] for case in CASES} == rows
    assert set(EVENT_WORDS) == rows
    assert set(EVENT_TYPE_WORDS) == rows - set(MEMORY_KINDS)
    assert set(POOL_WORDS) == set(Pool) - {Pool.NONE}


def test_values_are_escaped_in_json(builder: EventLogBuilder, dump: Dump) -> None:
    """Quotes, backslashes and colons of values do not damage the JSON."""
    builder.add(EventKind.SNAPSHOT, attribute_id=builder.string('path:C:\\x,note:"q",list:[1, 2]'))
    (snapshot,) = db_rows(dump(DataFormat.DB).db_files[0])
    assert json.loads(snapshot["Attr"]) == {"path": "C:\\x", "note": '"q"', "list": "[1, 2]"}


def test_unknown_kinds_and_ids_stay_visible(builder: EventLogBuilder, dump: Dump) -> None:
    """Records of a later version are rows all the same. So are names that the process did not live to define."""
    builder.add(200)
    builder.add(EventKind.ATEN_START, name_id=77, attribute_id=78, device=-100)
    first, second = csv_rows(dump().csv_files[0])
    assert [first["Event"], first["Event Type"], first["Name"]] == ["N/A", "N/A", "N/A"]
    assert [second["Name"], second["Attr"], second["Device Id"]] == ["<unknown>", "", "N/A"]


def test_numbers_keep_all_their_bits(builder: EventLogBuilder, dump: Dump) -> None:
    """Addresses and times of a damaged log do not fail the export."""
    builder.malloc(2**64 - 1, 2**50, timestamp_ns=2**63 - 1, thread_id=2**24 - 1)
    (row,) = csv_rows(dump(DataFormat.CSV).csv_files[0])
    assert [row["Ptr"], row["Timestamp(ns)"], row["Thread Id"]] == ["0x" + "f" * 16, str(2**63 - 1), str(2**24 - 1)]
    (entry,) = db_rows(dump(DataFormat.DB).db_files[0])
    assert entry["Ptr"] == "0x" + "f" * 16
    assert entry["Timestamp(ns)"] == 2**63 - 1
