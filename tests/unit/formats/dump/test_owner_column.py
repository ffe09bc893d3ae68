"""The attribute `owner` of blocks: only where it was asked for, and whatever the labels hold."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from msmemscope.configuration import Analysis, DataFormat
from msmemscope.formats.dump import dump_session
from tests.fakes.event_log_builder import BACKWARD, HAL, PTA, EventLogBuilder
from tests.support.ascend import attributes
from tests.unit.formats.dump.conftest import csv_rows, db_rows

if TYPE_CHECKING:
    from tests.unit.formats.dump.conftest import Dump

WITH_OWNERS = frozenset({Analysis.DECOMPOSE, Analysis.LEAKS})
NPU = {"pool": PTA, "device": 0}


def add_blocks(builder: EventLogBuilder) -> None:
    """A block of the driver, an activation, and a weight that gets its label after its free was recorded."""
    printed = builder.string("CANN@RUNTIME,page_type:huge,alloc_type:alloc")
    builder.malloc(0x1000, 1 << 20, pool=HAL, device=0, attribute_id=printed)
    activation = builder.malloc(0x2000, 512, name_id=builder.string("aten.mm"), extra=builder.labels("5mine"), **NPU)
    weight = builder.malloc(0x3000, 512, **NPU)
    builder.access(activation, 0x2000, flags=BACKWARD, **NPU)
    builder.free(activation, 0x2000, 512, **NPU)
    builder.owner(weight, "3model@weight", **NPU)


def allocations(dump: Dump, data_format: DataFormat, **settings: Any) -> list[dict[str, str]]:
    """The attributes of MALLOC rows, without those that every block has."""
    files = dump(data_format, **settings)
    if data_format is DataFormat.CSV:
        rows = [attributes(row["Attr"]) for row in csv_rows(files.csv_files[0]) if row["Event"] == "MALLOC"]
    else:
        rows = [json.loads(row["Attr"]) for row in db_rows(files.db_files[0]) if row["Event"] == "MALLOC"]
    return [{key: value for key, value in row.items() if key not in {"allocation_id", "addr", "size"}} for row in rows]


@pytest.mark.parametrize("data_format", list(DataFormat))
def test_owners_are_shown_where_they_were_asked_for(
    builder: EventLogBuilder, dump: Dump, data_format: DataFormat
) -> None:
    """Before what the allocator says of the block, and nowhere but at its MALLOC."""
    add_blocks(builder)
    found = allocations(dump, data_format, analysis=WITH_OWNERS)
    assert [row["owner"] for row in found] == ["CANN@RUNTIME", "PTA@model@activation@mine", "PTA@model@weight"]
    assert list(found[0]) == ["used", "owner", "page_type", "alloc_type"]


@pytest.mark.parametrize("data_format", list(DataFormat))
def test_no_owners_where_they_were_not(builder: EventLogBuilder, dump: Dump, data_format: DataFormat) -> None:
    """Attributes that the allocator gives beside the owner are always there."""
    add_blocks(builder)
    found = allocations(dump, data_format, analysis=frozenset({Analysis.LEAKS}))
    assert [list(row) for row in found] == [["used", "page_type", "alloc_type"], ["used"], ["used"]]


@pytest.mark.parametrize("data_format", list(DataFormat))
def test_labels_may_hold_anything(builder: EventLogBuilder, dump: Dump, data_format: DataFormat) -> None:
    """Quotes, backslashes, colons, commas, blanks and letters of any script."""
    label = 'say "hi"\\ :x,y z, \u6743\u91cd'
    builder.malloc(0x1000, 64, extra=builder.labels(f"5{label}"), **NPU)
    (row,) = allocations(dump, data_format, analysis=WITH_OWNERS)
    assert row["owner"] == f"PTA@{label}"


def test_owners_over_many_batches(builder: EventLogBuilder, dump: Dump, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row has its own block's owner, however rows are cut into batches."""
    for number in range(1, 40):
        block = builder.malloc(0x1000 * number, 64, extra=builder.labels(f"5label {number % 7}"), **NPU)
        if number % 3 == 0:
            builder.free(block, 0x1000 * number, 64, **NPU)
    monkeypatch.setattr(dump_session, "_BATCH_ROWS", 4)
    found = allocations(dump, DataFormat.CSV, analysis=WITH_OWNERS)
    assert [row["owner"] for row in found] == [f"PTA@label {number % 7}" for number in range(1, 40)]
