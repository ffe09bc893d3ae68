"""Memory of the driver that was never given back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msmemscope.analysis.leaks.driver_leaks import find_driver_leaks
from msmemscope.formats.reading import load
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.owners import UNKNOWN_MODULE
from msmemscope.model.pools import Pool
from tests.fakes.traces import Trace

if TYPE_CHECKING:
    from pathlib import Path


def driver(trace: Trace, size: int, module: str, **fields: Any) -> int:
    """Appends a block of the driver that a module of CANN asks for."""
    attributes = f"CANN@{module},page_type:huge,alloc_type:alloc" if module else ""
    return trace.malloc(size, native="/opt/app(f+0x1) [0x1]", pool=Pool.HAL, attributes=attributes, **fields)


def test_by_module_and_device() -> None:
    """Blocks that were given back do not count, nor does memory of the host; a pool's reserve is told apart."""
    trace = Trace()
    driver(trace, 100, "RUNTIME")
    driver(trace, 50, "RUNTIME")
    trace.free(driver(trace, 70, "RUNTIME"))
    driver(trace, 30, "HCCL", device=1)
    driver(trace, 7, "")
    driver(trace, 9999, "APP", device=DEVICE_CPU)
    driver(trace, 4096, "APP", address=0x5000_0000)
    trace.free(trace.malloc(512, address=0x5000_0200))
    found = find_driver_leaks(trace.recording())
    assert found.modules.rows() == [
        (0, "RUNTIME", 150, 2, 0, 0),
        (1, "HCCL", 30, 1, 0, 0),
        (0, UNKNOWN_MODULE, 7, 1, 0, 0),
        (0, "APP", 0, 0, 4096, 1),
    ]
    assert found.blocks["site"].to_list() == ["/opt/app(f+0x1)"] * 5
    assert found.was_observed


def test_an_address_that_was_used_before_is_no_reserve() -> None:
    """A block that lay there before the driver's block says nothing about it."""
    trace = Trace()
    trace.free(trace.malloc(512, address=0x5000_0200))
    driver(trace, 4096, "APP", address=0x5000_0000)
    assert find_driver_leaks(trace.recording()).modules["leaked_blocks"].to_list() == [1]


def test_the_owner_that_a_dump_tells(tmp_path: Path) -> None:
    """A dump has the owner as text of its own, with the labels of the user behind the module."""
    header = "ID,Event,Event Type,Name,Timestamp(ns),Process Id,Thread Id,Device Id,Ptr,Attr"
    attributes = "{allocation_id:1,addr:0x10,size:512,owner:CANN@GE@mine}"
    dump = tmp_path / "dump.csv"
    dump.write_text(f'{header}\n1,MALLOC,HAL,N/A,1700000000000000000,1,1,0,0x10,"{attributes}"\n')
    assert find_driver_leaks(load(dump)).modules["module"].to_list() == ["GE"]


def test_a_process_without_a_driver() -> None:
    """Nothing was observed, which is not the same as nothing leaked."""
    trace = Trace()
    trace.malloc(10, "/home/me/a.py(1): f", pool=Pool.HOST, device=DEVICE_CPU)
    found = find_driver_leaks(trace.recording())
    assert not found.was_observed
    assert found.blocks.is_empty()
