"""Typed attributes of event logs, as tables, in dumps, and as texts."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.cli.main import main
from msmemscope.formats.event_log import Capture
from msmemscope.formats.reading import load
from msmemscope.model.attributes import AttributeKey as Key
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from tests.fakes.event_log_builder import EventLogBuilder

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=[False, True], ids=["little", "big"])
def builder(tmp_path: Path, request: pytest.FixtureRequest) -> EventLogBuilder:
    """An empty log of either byte order."""
    return EventLogBuilder(tmp_path, big_endian=request.param)


DRIVER = ((Key.MODULE, "RUNTIME"), (Key.PAGE_TYPE, "huge"), (Key.ALLOCATION_KIND, "alloc"))
DEVICE = ((Key.TOTAL_BYTES, 16000), (Key.FREE_BYTES, 6000), (Key.DEVICE_RATE, 62_500_000))


def values(table: pl.DataFrame) -> dict[str, object]:
    """The only row, without what is null."""
    (row,) = table.to_dicts()
    return {name: value for name, value in row.items() if value is not None and name != "attribute_id"}


def test_columns(builder: EventLogBuilder) -> None:
    """Numbers, strings, rates, switches, and ranges in their order."""
    driver = builder.attributes(*DRIVER)
    device = builder.attributes(*DEVICE)
    watch = builder.attributes(
        (Key.WATCH, "auto"), (Key.IS_EXACT, 0), (Key.AFTER, 255), (Key.RANGE_FIRST, 1), (Key.RANGE_LAST, 2),
        (Key.RANGE_FIRST, 5), (Key.RANGE_LAST, 6), (Key.HAS_MORE_RANGES, 1), (Key.MORE_UNTIL, 2**64 - 1),
    )  # fmt: skip
    capture = Capture(builder.write())

    def columns(identity: int) -> dict[str, object]:
        return values(capture.attribute_frame(pl.Series([0, identity, identity], dtype=pl.UInt32)))

    assert columns(driver) == {"module": "RUNTIME", "page_type": "huge", "allocation_kind": "alloc"}
    assert columns(device) == {"total_bytes": 16000, "free_bytes": 6000, "device_rate": 62.5}
    assert columns(watch) == {
        "watch": "auto", "is_exact": False, "after": "00000000000000ff", "more_until": 2**64 - 1,
        "ranges": [{"first": 1, "last": 2}, {"first": 5, "last": 6}], "has_more_ranges": True,
    }  # fmt: skip
    assert dict(capture.string_frame(pl.Series([driver, watch])).iter_rows()) == {
        driver: "CANN@RUNTIME,page_type:huge,alloc_type:alloc",
        watch: "watch=auto\nexact=0\nafter=00000000000000ff\nranges=1-2,5-6,...\nmore_until=18446744073709551615",
    }


def test_what_is_damaged_is_left_out(builder: EventLogBuilder) -> None:
    """Keys that do not exist, values of the wrong kind, strings that were never defined, a pair that was cut off."""
    odd = builder.attributes((999, 5), (Key.FREE_BYTES, "many"), (Key.MODULE, 7), (Key.TOTAL_BYTES, 3))
    undefined = builder.define(7, builder._pack("HHIQ", Key.MODULE, 2, 0, 4000), family="attributes")
    cut = builder.define(
        7, builder._pack("HHIQHHI", Key.TOTAL_BYTES, 1, 0, 8, Key.FREE_BYTES, 1, 0), family="attributes"
    )
    capture = Capture(builder.write())
    found = {
        row["attribute_id"]: row for row in capture.attribute_frame(pl.Series([odd, undefined, cut, 5])).to_dicts()
    }
    assert (found[odd]["total_bytes"], found[odd]["free_bytes"], found[odd]["module"]) == (3, None, None)
    assert found[undefined]["module"] is None
    assert (found[cut]["total_bytes"], found[cut]["free_bytes"]) == (8, None)
    assert found.keys() == {odd, undefined, cut}


def test_a_recording_has_them(builder: EventLogBuilder) -> None:
    """Under the ids of its events; what pinned memory says, its pool says already."""
    driver, pinned = builder.attributes(*DRIVER), builder.attributes((Key.IS_PINNED, 1))
    builder.malloc(0x1000, 64, pool=Pool.HAL, device=0, attribute_id=driver)
    builder.malloc(0x2000, 64, pool=Pool.HOST, device=DEVICE_CPU, attribute_id=pinned)
    recording = load(builder.write())
    named = recording.events.join(recording.attributes, on="attribute_id", how="left", maintain_order="left")
    assert named["module"].to_list() == ["RUNTIME", None]
    assert recording.events["pool"].to_list() == [Pool.HAL, Pool.HAL]


def test_rows_of_a_dump(builder: EventLogBuilder, tmp_path: Path) -> None:
    """Attributes stand in the order in which they were recorded; modules are part of owners, if these are asked for."""
    builder.malloc(0x1000, 64, pool=Pool.HAL, device=0, attribute_id=builder.attributes(*DRIVER))
    builder.add(EventKind.SNAPSHOT, device=0, attribute_id=builder.attributes(*DEVICE))
    attributes = ((Key.PATH, "/a,b:c"), (Key.WORKSPACE_ADDRESS, 0x1F), (Key.WORKSPACE_BYTES, 2), (Key.STREAM_ID, 1))
    builder.add(EventKind.ATB_START, device=0, attribute_id=builder.attributes(*attributes))
    assert main(["recover", str(builder.write().parent)]) == 0
    (path,) = tmp_path.rglob("memscope_dump_*.csv")
    with path.open(newline="") as file:
        found = [row["Attr"] for row in csv.DictReader(file)]
    assert found[0].endswith(",page_type:huge,alloc_type:alloc}")
    assert "CANN" not in found[0]
    assert found[1:] == [
        "{total:16000,free:6000,device_rate:62.500000}",
        "{path:/a,b:c,workspace_ptr:0x1f,workspace_size:2,streamId:1}",
    ]
