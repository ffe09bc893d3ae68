"""The host memory of a process adds up: each part at the peak and at the end."""

from __future__ import annotations

import dataclasses
import io

import polars as pl
import pytest

from msmemscope.analysis.host.host_ledger import (
    BEFORE,
    EMULATED,
    FILES,
    KEPT_FREE,
    MOST_MOMENTS,
    PINNED,
    UNKNOWN,
    HostLedger,
    account_for_host,
)
from msmemscope.analysis.host.host_samples import NUMPY_ARRAYS, PYTHON_OBJECTS, SHARED_MEMORY, TENSORS
from msmemscope.model.devices import DEVICE_CPU
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from msmemscope.reports.host_ledger_report import render_host_ledger
from tests.fakes.traces import Trace

MEBIBYTE = 1 << 20
PYTHON = "/usr/lib/libpython3.11.so.1.0(_PyObject_Malloc+0x78) [0x1]"
NUMPY = "/x/numpy/_core/_multiarray_umath.so(PyDataMem_UserNEW+0x1) [0x2]"


def figure(trace: Trace, anonymous: int, *, kept: int = 0, files: int = 0, attribute_id: int = 0) -> None:
    """Appends a figure; sizes in MiB."""
    sizes = {"size": anonymous * MEBIBYTE, "address": kept * MEBIBYTE, "extra": files * MEBIBYTE}
    trace.add(EventKind.HOST_MEMORY, device=-1, attribute_id=attribute_id, **sizes)


def run() -> Trace:
    """A process that takes something of every kind, and gives half of it back."""
    trace = Trace()
    figure(trace, 100, kept=1, files=50)
    tensor = trace.malloc(20 * MEBIBYTE, device=DEVICE_CPU, pool=Pool.HOST)
    trace.malloc(8 * MEBIBYTE, device=DEVICE_CPU, pool=Pool.HAL)
    text = trace.sample(16 * MEBIBYTE, "server.py(3): keep", native=PYTHON)
    for _ in range(4):
        trace.sample(4 * MEBIBYTE, "server.py(5): load", native=NUMPY)
    figure(trace, 164, kept=2, files=52)
    trace.free(tensor)
    trace.free_sample(text)
    figure(trace, 140, kept=14, files=52)
    return trace


def sizes(found: HostLedger, column: str) -> dict[str, int]:
    """The parts in MiB."""
    return {part: size // MEBIBYTE for part, size in found.parts.select("part", column).iter_rows()}


def test_memory_that_was_never_touched_is_no_part() -> None:
    """As was told last: of samples and tensors that are alive, and of samples that are gone."""
    trace = Trace()
    figure(trace, 100)
    tensor = trace.malloc(40 * MEBIBYTE, device=DEVICE_CPU, pool=Pool.HOST)
    array = trace.sample(32 * MEBIBYTE, "server.py(5): load", native=NUMPY, block=16 * MEBIBYTE)
    gone = trace.sample(64 * MEBIBYTE, "server.py(7): scratch", native=NUMPY, block=64 * MEBIBYTE)
    trace.add(EventKind.HOST_RESIDENT, size=MEBIBYTE, extra=array)
    figure(trace, 128)
    trace.free_sample(gone, in_memory=8 * MEBIBYTE)
    trace.add(EventKind.HOST_RESIDENT, size=4 * MEBIBYTE, extra=array)
    trace.add(EventKind.HOST_RESIDENT, size=12 * MEBIBYTE, extra=tensor)
    figure(trace, 120)
    found = account_for_host(trace.recording())
    assert sizes(found, "peak_bytes") == {BEFORE: 100, NUMPY_ARRAYS: 16, TENSORS: 12, UNKNOWN: 0}
    assert sizes(found, "end_bytes") == {BEFORE: 100, NUMPY_ARRAYS: 8, TENSORS: 12, UNKNOWN: 0}


def test_the_byte_that_stands_for_nothing_kept_is_no_part() -> None:
    """The parts add up to the byte where the C library keeps nothing: its figure is 1 then."""
    trace = Trace()
    for size in (100 * MEBIBYTE, 120 * MEBIBYTE):
        trace.add(EventKind.HOST_MEMORY, device=-1, size=size, address=1)
    found = account_for_host(trace.recording())
    assert KEPT_FREE not in sizes(found, "peak_bytes")
    assert found.parts["peak_bytes"].sum() == found.peak_bytes == 120 * MEBIBYTE


def test_each_part_has_its_bytes_at_the_peak_and_at_the_end() -> None:
    """The unknown part is the rest."""
    found = account_for_host(run().recording())
    assert (found.peak_bytes, found.end_bytes) == (216 * MEBIBYTE, 192 * MEBIBYTE)
    at_peak = {
        BEFORE: 99,
        FILES: 52,
        TENSORS: 20,
        PYTHON_OBJECTS: 16,
        NUMPY_ARRAYS: 16,
        PINNED: 8,
        KEPT_FREE: 2,
        UNKNOWN: 3,
    }
    assert sizes(found, "peak_bytes") == at_peak
    at_end = at_peak | {TENSORS: 0, PYTHON_OBJECTS: 0, KEPT_FREE: 14, UNKNOWN: 3}
    assert sizes(found, "end_bytes") == at_end
    assert sum(found.parts["peak_bytes"]) == found.peak_bytes
    assert sum(found.parts["end_bytes"]) == found.end_bytes


def test_sampled_parts_have_an_error() -> None:
    """Of one sample all of it, of four samples half."""
    found = account_for_host(run().recording())
    errors = dict(
        found.parts.filter(pl.col("peak_error_bytes").is_not_null()).select("part", "peak_error_bytes").iter_rows()
    )
    assert errors == pytest.approx({PYTHON_OBJECTS: 16 * MEBIBYTE, NUMPY_ARRAYS: 8 * MEBIBYTE}, rel=1e-6)


def test_blocks_that_are_always_recorded_have_no_error() -> None:
    """A block that stands for its own bytes was recorded in any case; one for four times its bytes in one of four."""
    trace = Trace()
    figure(trace, 100)
    for _ in range(100):
        trace.sample(MEBIBYTE, "server.py(3): keep", native=PYTHON, block=MEBIBYTE)
    trace.sample(4 * MEBIBYTE, "server.py(5): load", native=NUMPY, block=MEBIBYTE)
    figure(trace, 204)
    found = account_for_host(trace.recording())
    errors = dict(found.parts.select("part", "peak_error_bytes").iter_rows())
    assert errors[PYTHON_OBJECTS] == 0
    assert errors[NUMPY_ARRAYS] == int(12**0.5 * MEBIBYTE)


def test_lines_are_those_that_are_alive_at_the_peak() -> None:
    """The largest first, of equally large ones the first."""
    found = account_for_host(run().recording())
    assert found.lines["site"].to_list() == ["server.py(3): keep", "server.py(5): load"]
    assert found.lines["samples"].to_list() == [1, 4]


def test_memory_of_an_emulated_device_is_in_the_unknown_part() -> None:
    """On hardware the driver's memory lies on the device, and is no part of the process."""
    trace = Trace()
    figure(trace, 100)
    trace.malloc(64 * MEBIBYTE, pool=Pool.HAL)
    figure(trace, 110)
    recording = trace.recording()
    assert sizes(account_for_host(recording), "peak_bytes") == {BEFORE: 100, UNKNOWN: 10}
    emulated = dataclasses.replace(recording, facts={"device_memory": ("emulated",)})
    assert sizes(account_for_host(emulated), "peak_bytes") == {BEFORE: 100, EMULATED: 10}


def test_shared_memory_and_the_control_group() -> None:
    """Shared memory is the kernel's figure: samples of it are lines, and no part of their own."""
    trace = Trace()
    figure(trace, 100, files=50)
    trace.sample(32 * MEBIBYTE, "frames.py(3): publish", native=PYTHON, function="mmap(MAP_SHARED)")
    attributes = trace.text(f"shared_bytes:{30 * MEBIBYTE},group_bytes:{280 * MEBIBYTE},group_limit:{300 * MEBIBYTE}")
    figure(trace, 100, files=80, attribute_id=attributes)
    found = account_for_host(trace.recording())
    assert sizes(found, "peak_bytes") == {BEFORE: 100, FILES: 50, SHARED_MEMORY: 30, UNKNOWN: 0}
    assert found.lines.row(0) == ("frames.py(3): publish", SHARED_MEMORY, 32 * MEBIBYTE, 1)
    assert found.ended_near_limit
    assert found.largest_of_program() == [(SHARED_MEMORY, 30 * MEBIBYTE)]
    out = io.StringIO()
    render_host_ledger(found, out)
    assert "its control group may have 300 MiB; it used 280 MiB at most, 280 MiB at the end" in " ".join(
        out.getvalue().split()
    )


def test_without_figures_there_is_no_answer() -> None:
    """The reason says what brings them."""
    found = account_for_host(Trace().recording())
    assert not found.coverage.is_answered
    assert "--host=sampled" in found.coverage.missing[0]


def test_without_samples_the_report_says_where_allocations_are() -> None:
    """Steps bring figures without samples."""
    trace = Trace()
    trace.step(extra=100 * MEBIBYTE)
    trace.step(extra=130 * MEBIBYTE)
    found = account_for_host(trace.recording())
    assert sizes(found, "peak_bytes") == {BEFORE: 100, UNKNOWN: 30}
    out = io.StringIO()
    render_host_ledger(found, out)
    assert "were not sampled: they are in the unknown part" in " ".join(out.getvalue().split())

    assert found.coverage.limits == ("mapped files and shared memory were not looked at (--host=off)",)


def test_figures_that_cannot_be_true_are_left_out() -> None:
    """A log of somebody else may claim anything."""
    trace = Trace()
    trace.step(extra=2**64 - 1, address=2**64 - 1)
    figure(trace, 100)
    trace.step(extra=90 * MEBIBYTE, address=2**63)
    found = account_for_host(trace.recording())
    assert (found.peak_bytes, found.end_bytes) == (100 * MEBIBYTE, 90 * MEBIBYTE)


def test_a_long_run_has_some_moments_with_the_peak_and_the_end() -> None:
    """However many figures there are."""
    trace = Trace()
    for number in range(5000):
        figure(trace, 300 if number == 3333 else 100 + number % 7)
    found = account_for_host(trace.recording())
    assert found.course.height <= MOST_MOMENTS
    assert found.course["resident_bytes"].max() == found.peak_bytes == 300 * MEBIBYTE
    assert found.course["resident_bytes"][-1] == found.end_bytes
