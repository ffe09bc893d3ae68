"""Exported snapshots are what torch and its viewers read: their totals are ours at every event."""

from __future__ import annotations

import dataclasses
import pickle
import pickletools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.formats.export.export_choice import ExportChoice
from msmemscope.formats.export.snapshot_segments import _holder, _inside
from msmemscope.formats.export.torch_snapshot import write_torch_snapshot
from msmemscope.formats.reading import load
from msmemscope.model.devices import DEVICE_CPU, DEVICES_PER_KIND, is_accelerator
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from tests.fakes.traces import Trace
from tests.support.nightly import examples
from tests.support.random_traces import recordings

if TYPE_CHECKING:
    from msmemscope.recording import Recording

SITE = "/home/me/model.py(9): forward\n/home/me/train.py(5): <module>"
NATIVE = "/lib/libx.so(take+0x1) [0xabc]"
FRAMES = [
    {"filename": "/lib/libx.so", "line": 0, "name": "take+0x1"},
    {"filename": "/home/me/model.py", "line": 9, "name": "forward"},
    {"filename": "/home/me/train.py", "line": 5, "name": "<module>"},
]
VIEWER_OPCODES = frozenset(
    {
        "APPENDS", "BINGET", "BININT", "BININT1", "BININT2", "EMPTY_DICT", "EMPTY_LIST", "FRAME", "LONG1", "LONG_BINGET",
        "MARK", "MEMOIZE", "PROTO", "SETITEMS", "SHORT_BINUNICODE", "STOP", "TUPLE2", "APPEND", "NEWFALSE", "BINPUT",
        "BINUNICODE", "EMPTY_TUPLE", "NEWTRUE", "NONE", "BINFLOAT", "TUPLE", "TUPLE1", "TUPLE3", "LONG_BINPUT", "LIST",
        "DICT", "SETITEM",
    }
)  # fmt: skip
"""The opcodes of pickles that the viewer in browsers knows (torch/utils/viz/MemoryViz.js)."""


def exported(recording: Recording) -> tuple[dict[str, Any], bytes, tuple[str, ...]]:
    """The snapshot of a recording, its bytes, and what was left out."""
    content = bytearray()
    notes = write_torch_snapshot(recording, content.extend, ExportChoice("a run"))
    snapshot: dict[str, Any] = pickle.loads(bytes(content))  # noqa: S301 - written a moment ago
    return snapshot, bytes(content), notes


def read_back(content: bytes) -> Recording:
    """The recording that our own reader makes of a snapshot."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.pickle"
        path.write_bytes(content)
        return load(path)


def replayed(trace: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    """After each entry: bytes in use, of blocks that were not freed; bytes not given back; the time."""
    in_use = held = 0
    found = []
    for entry in trace:
        if entry["action"] == "alloc":
            in_use += entry["size"]
            held += entry["size"]
        elif entry["action"] == "free_requested":
            in_use -= entry["size"]
        elif entry["action"] == "free_completed":
            held -= entry["size"]
        found.append((in_use, held, entry["time_us"]))
    return found


@examples(by_day=20)
@given(recordings)
def test_totals_equal_the_recording_at_every_event(recording: Recording) -> None:
    """The history of each device, replayed, has the bytes in use of its pool after each of their changes."""
    snapshot, _, _ = exported(recording)
    devices = recording.blocks["device"].unique().to_list()
    chosen = [device for device in devices if is_accelerator(device)] or devices
    histories = [trace for trace in snapshot["device_traces"] if trace]
    assert len(histories) == len(chosen)
    for device in chosen:
        own = recording.blocks.filter(pl.col("device") == device)
        pools = [pool for pool in (Pool.CUDA, Pool.PTA, Pool.HOST, Pool.HAL) if pool in own["pool"]]
        expected = own.filter(pl.col("pool") == pools[0])
        changes = sorted(
            [(row[0], row[1]) for row in expected.select("malloc_sequence", "size").rows()]
            + [(row[0], -row[1]) for row in expected.select("free_sequence", "size").drop_nulls().rows()]
        )
        totals = [sum(change for _, change in changes[: index + 1]) for index in range(len(changes))]
        matching = []
        for trace in histories:
            after = [
                total
                for entry, (total, _, _) in zip(trace, replayed(trace), strict=True)
                if entry["action"] in {"alloc", "free_requested"}
            ]
            matching.append(after == totals)
        assert any(matching)
    for segment in snapshot["segments"]:
        assert segment["total_size"] == sum(block["size"] for block in segment["blocks"])
        assert segment["allocated_size"] == sum(
            block["size"] for block in segment["blocks"] if block["state"] == "active_allocated"
        )
        addresses = [block["address"] for block in segment["blocks"]]
        ends = [block["address"] + block["size"] for block in segment["blocks"]]
        assert addresses == [segment["address"], *ends[:-1]]
    alive = sum(segment["allocated_size"] for segment in snapshot["segments"])
    assert alive == sum(replayed(trace)[-1][0] for trace in histories)


@examples(by_day=15)
@given(recordings)
def test_our_reader_reads_the_same_blocks(recording: Recording) -> None:
    """Addresses, sizes, stacks and the order in which blocks begin and end, device by device."""
    _, content, _ = exported(recording)
    if not content:
        return
    back = read_back(content)
    index = pl.col("device") % DEVICES_PER_KIND
    for device in recording.blocks["device"].unique():
        own = recording.blocks.filter((pl.col("device") == device) & pl.col("pool").is_in([Pool.PTA, Pool.CUDA]))
        kinds = {row // DEVICES_PER_KIND for row in recording.blocks["device"] if is_accelerator(row)}
        if own.is_empty() or len(kinds) > 1:
            continue  # of several kinds the later ones get other numbers
        found = back.blocks.filter((index == device % DEVICES_PER_KIND) & pl.col("pool").is_in([Pool.PTA, Pool.CUDA]))
        assert described(found, back) == described(own, recording)


def described(blocks: pl.DataFrame, recording: Recording) -> list[tuple[Any, ...]]:
    """Blocks with the texts of their stacks; moments by their order."""
    python = {0: "", **dict(recording.python_stacks.rows())}
    moments = pl.concat([blocks["malloc_sequence"], blocks["free_sequence"].drop_nulls()]).sort().to_list()
    rows = []
    for row in blocks.iter_rows(named=True):
        stack = python[row["python_stack_id"]]
        # Of frames that are no frames of Python nobody can tell whose they are.
        stack = "" if "odd frame" in stack else stack
        end = None if row["free_sequence"] is None else moments.index(row["free_sequence"])
        rows.append((row["address"], row["size"], moments.index(row["malloc_sequence"]), end, stack))
    return rows


def run_with_everything() -> Recording:
    """A segment with a hole, blocks alive and freed, a failed allocation, a step and a range."""
    trace = Trace()
    trace.malloc(20 << 20, pool=Pool.HAL, address=0x1000_0000)
    first = trace.malloc(1024, SITE, operator="aten.mm", native=NATIVE, address=0x1000_0000)
    trace.malloc(4096, SITE, native=NATIVE, address=0x1000_0400)
    opened = trace.begin_range("forward")
    trace.free(first)
    trace.end_range(opened)
    trace.step()
    trace.add(EventKind.OOM, size=1 << 40)
    trace.malloc(512, address=0x9000_0000)
    trace.malloc(100, pool=Pool.HOST, device=DEVICE_CPU)
    return trace.recording()


def test_fields_are_those_of_torch() -> None:
    """The keys of torch's docstring and their types, so that whoever knows torch's snapshots knows ours."""
    snapshot, _, notes = exported(run_with_everything())
    (trace,) = snapshot["device_traces"]
    assert [entry["action"] for entry in trace] == [
        "segment_alloc", "alloc", "alloc", "free_requested", "free_completed", "oom", "alloc",
    ]  # fmt: skip
    assert trace[1] == {
        "action": "alloc",
        "addr": 0x1000_0000,
        "size": 1024,
        "stream": 0,
        "time_us": 1_700_000_000_002_000,
        "pool_id": (0, 0),
        "user_metadata": "PTA@ops@aten, aten.mm",
        "frames": FRAMES,
    }
    assert trace[5]["size"] == 1 << 40
    assert trace[5]["device_free"] == 0
    of_driver, made_up = snapshot["segments"]
    assert of_driver["address"] == 0x1000_0000
    assert of_driver["total_size"] == 20 << 20
    assert of_driver["segment_type"] == "large"
    assert [(block["state"], block["size"]) for block in of_driver["blocks"]] == [
        ("inactive", 1024), ("active_allocated", 4096), ("inactive", (20 << 20) - 5120),
    ]  # fmt: skip
    assert of_driver["blocks"][1]["frames"] == FRAMES
    assert (made_up["address"], made_up["total_size"], made_up["segment_type"]) == (0x9000_0000, 512, "small")
    assert snapshot["allocator_settings"] == {"PYTORCH_NPU_ALLOC_CONF": "", "expandable_segments": False}
    stages = [(one["name"], one["stage"]) for one in snapshot["external_annotations"]]
    assert stages == [("step 1", "START"), ("forward", "START"), ("forward", "END"), ("step 1", "END")]
    times = [one["time_us"] for one in snapshot["external_annotations"]]
    assert times == sorted(times)
    assert notes == ("a snapshot holds one pool per device: cpu HOST left out",)


def test_the_viewer_in_browsers_knows_every_opcode() -> None:
    """It knows few, and no number of more than eight bytes; its lists grow by short batches."""
    trace = Trace()
    for _ in range(3000):
        trace.malloc(512, SITE, operator="aten.mm")
    _, content, _ = exported(trace.recording())
    marks: list[int] = []
    for opcode, argument, place in pickletools.genops(content):
        assert opcode.name in VIEWER_OPCODES
        assert place is not None
        if opcode.name == "PROTO":
            assert argument == 2
        if opcode.name == "LONG1":
            assert content[place + 1] <= 8
        if opcode.name == "MARK":
            marks.append(place)
        if opcode.name == "APPENDS":
            assert place - marks.pop() < 1000 * 200
        elif opcode.name == "SETITEMS":
            marks.pop()
    assert marks == []


@pytest.mark.torch
@examples(by_day=15)
@given(recordings)
def test_torch_reads_it(recording: Recording) -> None:
    """Its own functions take any of our snapshots, and count what we count."""
    viz = pytest.importorskip("torch.cuda._memory_viz")
    snapshot, _, _ = exported(recording)
    reserved = sum(segment["total_size"] for segment in snapshot["segments"])
    allocated = sum(segment["allocated_size"] for segment in snapshot["segments"])
    summary = viz.segsum(snapshot)  # raises where sizes do not add up
    assert f"total_reserved: {viz.Bytes(reserved)}\n" in summary
    assert f"total_allocated: {viz.Bytes(allocated)}\n" in summary
    listing = viz.trace(snapshot)
    for index, trace in enumerate(snapshot["device_traces"]):
        assert (f"Device {index} -" in listing) == bool(trace)
    for lines in (viz.memory(snapshot, lambda text: text), viz.segments(snapshot, lambda text: text)):
        assert sum(int(line.rpartition(" ")[2]) for line in lines.splitlines()) == reserved
    assert "Allocator State History" in viz.segment_plot(snapshot)
    assert "Active Memory Timeline" in viz.trace_plot(snapshot)


@examples(by_day=20)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 4), st.booleans()), max_size=12))
def test_blocks_that_overlap_are_all_there(blocks: list[tuple[int, int, bool]]) -> None:
    """A damaged recording may say so: then no bytes are lost, and segments still add up."""
    trace = Trace()
    trace.malloc(3 * 4096, pool=Pool.HAL, address=0x1000)
    for place, pages, is_freed in blocks:
        block = trace.malloc(pages * 4096, address=0x1000 + place * 2048)
        if is_freed:
            trace.free(block)
    snapshot, _, _ = exported(trace.recording())
    alive = trace.recording().blocks.filter(pl.col("free_sequence").is_null() & (pl.col("pool") == Pool.PTA))
    pool = [segment["allocated_size"] for segment in snapshot["segments"]]
    if blocks:
        assert sum(pool) == alive["size"].sum()
    for segment in snapshot["segments"]:
        assert segment["total_size"] == sum(block["size"] for block in segment["blocks"])


@examples(by_day=20)
@given(st.lists(st.tuples(st.sampled_from(["segment", "release", "malloc", "free"]), st.integers(0, 30)), max_size=40))
def test_every_block_lies_in_a_segment_at_every_moment(run: list[tuple[str, int]]) -> None:
    """The viewer looks for it and fails without: whether the driver's memory was recorded, given back, or never seen."""
    trace = Trace()
    segments: list[tuple[int, int]] = []
    blocks: list[tuple[int, int]] = []
    for action, number in run:
        if action == "segment":
            address = (1 + len(trace.rows)) << 30
            segments.append((trace.malloc(4 << 20, pool=Pool.HAL, address=address), address))
        elif action == "release" and segments:
            block, address = segments[number % len(segments)]
            if not any(address <= place < address + (4 << 20) for _, place in blocks):
                trace.free(block)
                segments.remove((block, address))
        elif action == "malloc":
            base = segments[number % len(segments)][1] if segments and number % 3 else 1 << 50
            taken = {place for _, place in blocks}
            address = next(place for place in range(base, base + (4 << 20), 4096) if place not in taken)
            blocks.append((trace.malloc(3000, address=address), address))
        elif action == "free" and blocks:
            block, _ = blocks.pop(number % len(blocks))
            trace.free(block)
    recording = trace.recording()
    if Pool.PTA not in recording.blocks["pool"]:
        return
    snapshot, _, _ = exported(recording)
    (history,) = snapshot["device_traces"]
    begun = {entry["addr"] for entry in history if entry["action"] == "segment_alloc"}
    present = {one["address"]: one["total_size"] for one in snapshot["segments"] if one["address"] not in begun}
    held: dict[int, int] = {}
    for entry in history:
        if entry["action"] == "segment_alloc":
            present[entry["addr"]] = entry["size"]
        elif entry["action"] == "segment_free":
            del present[entry["addr"]]
        elif entry["action"] == "alloc":
            held[entry["addr"]] = entry["size"]
        elif entry["action"] == "free_completed":
            del held[entry["addr"]]
        for address, size in held.items():
            assert any(begin <= address and address + size <= begin + length for begin, length in present.items())
    assert present == {one["address"]: one["total_size"] for one in snapshot["segments"]}


def test_segments_that_grow_are_one(tmp_path: Path) -> None:
    """A block may begin in one piece and end in the next; at the end, pieces that touch are one segment."""
    base = 0x7F00_0000_0000
    trace = [
        {"action": "segment_map", "addr": base, "size": 2 << 20, "stream": 0, "time_us": 10, "frames": []},
        {"action": "segment_map", "addr": base + (2 << 20), "size": 2 << 20, "stream": 0, "time_us": 20, "frames": []},
        {"action": "alloc", "addr": base, "size": 3 << 20, "stream": 0, "time_us": 30, "frames": []},
    ]
    blocks = [
        {"address": base, "size": 3 << 20, "requested_size": 3 << 20, "state": "active_allocated", "frames": []},
        {"address": base + (3 << 20), "size": 1 << 20, "requested_size": 0, "state": "inactive", "frames": []},
    ]
    segment = {
        "device": 0,
        "address": base,
        "total_size": 4 << 20,
        "stream": 0,
        "blocks": blocks,
        "is_expandable": True,
    }
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [segment], "device_traces": [trace]}))
    for recording in (load(path), dataclasses.replace(load(path), form="event log")):
        snapshot, _, _ = exported(recording)
        (found,) = snapshot["segments"]
        assert (found["address"], found["total_size"], found["is_expandable"]) == (base, 4 << 20, True)
        states = [(block["state"], block["address"], block["size"]) for block in found["blocks"]]
        assert states == [(block["state"], block["address"], block["size"]) for block in blocks]
        assert [entry["action"] for entry in snapshot["device_traces"][0]] == ["segment_map", "segment_map", "alloc"]
        assert snapshot["allocator_settings"]["expandable_segments"] is True


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 3)), max_size=8),
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), min_size=1, max_size=8),
)
def test_both_ways_to_find_a_segment_agree(pieces: list[tuple[int, int]], blocks: list[tuple[int, int]]) -> None:
    """One by one among many pieces, and all at once."""
    rows = {place * 4: row for row, (place, _) in enumerate(pieces)}
    sizes = [size * 4 for _, size in pieces]
    starts = sorted(rows)
    if not starts:
        return
    addresses = np.array([address for address, _ in blocks], np.uint64)
    ends = np.array([address + size for address, size in blocks], np.uint64)
    single = [_holder(starts, rows, sizes, address, address + size) for address, size in blocks]
    assert _inside(starts, rows, sizes, addresses, ends).tolist() == single


def test_what_was_requested_is_kept(tmp_path: Path) -> None:
    """A snapshot of torch, exported: the history has requests again, blocks have both, streams and pools are the same."""
    frames = [{"filename": "train.py", "line": 3, "name": "load"}]
    base = 0x7F00_0000_0000

    def entry(action: str, address: int, size: int, time_us: int) -> dict[str, Any]:
        return {
            "action": action, "addr": address, "size": size, "stream": 7, "time_us": time_us, "frames": frames,
            "pool_id": (0, 3),
        }  # fmt: skip

    trace = [
        entry("segment_alloc", base, 2 << 20, 10),
        entry("alloc", base, 1000, 20),
        entry("alloc", base + 1024, 300, 30),
        entry("free_requested", base, 1000, 40),
    ]
    blocks = [
        {"address": base, "size": 1024, "requested_size": 1000, "state": "active_pending_free", "frames": frames},
        {"address": base + 1024, "size": 512, "requested_size": 300, "state": "active_allocated", "frames": frames},
        {"address": base + 1536, "size": (2 << 20) - 1536, "requested_size": 0, "state": "inactive", "frames": []},
    ]
    segment = {
        "device": 0, "address": base, "total_size": 2 << 20, "stream": 7, "segment_type": "small", "blocks": blocks,
        "segment_pool_id": (0, 3), "is_expandable": False, "frames": frames,
    }  # fmt: skip
    settings_ = {"PYTORCH_CUDA_ALLOC_CONF": ""}
    content = {"segments": [segment], "device_traces": [trace], "allocator_settings": settings_}
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(content))
    snapshot, packed, _ = exported(load(path))
    sizes = [(one["action"], one["size"], one["stream"], one["pool_id"]) for one in snapshot["device_traces"][0]]
    assert sizes == [(one["action"], one["size"], 7, (0, 3)) for one in trace]
    (found,) = snapshot["segments"]
    assert (found["stream"], found["segment_pool_id"], found["frames"]) == (7, (0, 3), frames)
    assert (found["allocated_size"], found["active_size"], found["requested_size"]) == (512, 1536, 1300)
    states = [(block["state"], block["size"], block["requested_size"]) for block in found["blocks"]]
    assert states == [(block["state"], block["size"], block["requested_size"]) for block in blocks]
    back = read_back(packed).blocks
    assert back.drop("name_id", "attribute_id").equals(load(path).blocks.drop("name_id", "attribute_id"))
