"""Traces of Perfetto and of Chrome show what the recording says: the bytes in use after every event, and what ran when."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from hypothesis import given

from msmemscope.analysis.owners.decomposition import owned_blocks
from msmemscope.formats.export.chrome_trace import write_chrome_trace
from msmemscope.formats.export.export_choice import ExportChoice
from msmemscope.formats.export.perfetto import write_perfetto
from msmemscope.formats.export.tracks import Clock, tracks_of
from msmemscope.model.devices import device_name
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from msmemscope.recording.timeline import MemoryUse
from tests.fakes.traces import EVENT_NS, START_NS, Trace
from tests.support.nightly import examples
from tests.support.protobuf_messages import messages, numbers, read_message, signed, text
from tests.support.random_traces import recordings

if TYPE_CHECKING:
    from msmemscope.recording import Recording

SLICE_BEGIN, SLICE_END, INSTANT, COUNTER = 1, 2, 3, 4
TITLE = "a run"


def perfetto_packets(recording: Recording) -> list[dict[int, Any]]:
    """The packets of a trace."""
    content = bytearray()
    write_perfetto(recording, content.extend, ExportChoice(TITLE))
    return messages(read_message(bytes(content)), 1)


def perfetto_content(recording: Recording) -> tuple[dict[str, list[tuple[int, int]]], list[tuple[Any, ...]]]:
    """Counters by name: times and values; and slices and instants: track, kind, time, name."""
    names: dict[int, str] = {}
    texts: dict[int, str] = {}
    counters: dict[str, list[tuple[int, int]]] = {}
    events = []
    for packet in perfetto_packets(recording):
        for track in messages(packet, 60):
            thread = messages(track, 4)
            (uuid,) = numbers(track, 1)
            assert uuid not in names
            names[uuid] = f"thread {numbers(thread[0], 2)[0]}" if thread else text(track, 2)
            if 8 in track:
                assert numbers(messages(track, 8)[0], 3) == [3]  # bytes
                counters[names[uuid]] = []
        for data in messages(packet, 12):
            texts.update((numbers(entry, 1)[0], text(entry, 2)) for entry in messages(data, 2))
        for event in messages(packet, 11):
            (time,), (kind,), (uuid,) = numbers(packet, 8), numbers(event, 9), numbers(event, 11)
            if kind == COUNTER:
                counters[names[uuid]].append((time, signed(numbers(event, 30)[0])))
            else:
                events.append((names[uuid], kind, time, texts[numbers(event, 10)[0]]))
    return counters, events


def chrome_content(recording: Recording) -> tuple[dict[str, list[tuple[int, int]]], list[tuple[Any, ...]]]:
    """The same of a trace in JSON, with the begin of the trace added to its times."""
    content = bytearray()
    write_chrome_trace(recording, content.extend, ExportChoice(TITLE))
    trace = json.loads(content, parse_float=lambda digits: int(digits.replace(".", "")))
    start = int(trace["otherData"]["start_ns"])
    counters: dict[str, list[tuple[int, int]]] = {}
    threads, events = {}, []
    for event in trace["traceEvents"]:
        if event["ph"] == "C":
            counters.setdefault(event["name"], []).append((start + event["ts"], event["args"]["bytes"]))
        elif event["name"] == "thread_name":
            threads[event["tid"]] = event["args"]["name"]
        elif event["ph"] == "X":
            track, begin = threads[event["tid"]], start + event["ts"]
            events.append((track, SLICE_BEGIN, begin, event["name"]))
            events.append((track, SLICE_END, begin + event["dur"], event["name"]))
        elif event["ph"] == "i":
            events.append((threads[event["tid"]], INSTANT, start + event["ts"], event["name"]))
    return counters, events


def expected_counters(recording: Recording) -> dict[str, list[tuple[int, int]]]:
    """The bytes in use of each pool and of each owner after each of their changes, summed up by plain additions."""
    times = dict(zip(recording.events["sequence"], Clock.of(recording).times_ns.tolist(), strict=True))
    blocks, _ = owned_blocks(recording)
    found: dict[str, list[tuple[int, int]]] = {}
    for (device, owner), part in blocks.group_by("device", "owner"):
        use = MemoryUse.of(part)
        found[f"{device_name(device)} {owner}"] = [
            (times[moment], total) for moment, total in zip(use.moments.tolist(), use.in_use[1:].tolist(), strict=True)
        ]
    for (device, word), part in recording.timeline().group_by("device", "pool"):
        for column, what in (("in_use_bytes", "in use"), ("reserved_bytes", "reserved")):
            values = [
                (times[sequence], value) for sequence, value in part.select("sequence", column).drop_nulls().rows()
            ]
            changes = [one for index, one in enumerate(values) if index == 0 or values[index - 1][1] != one[1]]
            if changes:
                found[f"{device} {word} {what}"] = changes
    return found


@examples(by_day=15)
@given(recordings)
def test_counters_equal_the_recording_at_every_event(recording: Recording) -> None:
    """Of each pool and owner, in both formats."""
    expected = expected_counters(recording)
    assert perfetto_content(recording)[0] == expected
    assert chrome_content(recording)[0] == expected


@examples(by_day=15)
@given(recordings)
def test_slices_of_a_track_nest(recording: Recording) -> None:
    """No slice of a track begins within another one: viewers would take it for a call of that one."""
    _, events = perfetto_content(recording)
    tracks: dict[str, list[tuple[Any, ...]]] = {}
    for track, kind, time, name in events:
        if kind != INSTANT:
            tracks.setdefault(track, []).append((kind, time, name))
    for found in tracks.values():
        assert [kind for kind, _, _ in found] == [SLICE_BEGIN, SLICE_END] * (len(found) // 2)
        assert [name for _, _, name in found[::2]] == [name for _, _, name in found[1::2]]
        assert [time for _, time, _ in found] == sorted(time for _, time, _ in found)
    assert sorted(chrome_content(recording)[1]) == sorted(events)
    begins = [event for event in events if event[1] == SLICE_BEGIN]
    ranges = recording.events.filter(pl.col("kind") == EventKind.RANGE_START).height
    assert len(begins) == recording.operators.height + recording.steps.height + ranges


def test_what_ran_when() -> None:
    """Operators on their threads, steps and ranges on tracks of their own, marks as instants."""
    trace = Trace()
    trace.add(EventKind.ATEN_START, name_id=trace.text("aten.mm"), thread_id=7)
    trace.malloc(100)
    trace.add(EventKind.ATEN_END, name_id=trace.text("aten.mm"), thread_id=7)
    trace.step()
    first, second = trace.begin_range("load"), trace.begin_range("save")
    trace.end_range(first)
    trace.end_range(second)
    trace.mark("here", thread_id=7)
    trace.add(EventKind.OOM, size=1 << 40, thread_id=7)

    def at(event: int) -> int:
        return START_NS + event * EVENT_NS

    expected = [
        ("ranges", SLICE_BEGIN, at(5), "load"), ("ranges", SLICE_END, at(7), "load"),
        ("ranges (2)", SLICE_BEGIN, at(6), "save"), ("ranges (2)", SLICE_END, at(8), "save"),
        ("steps of npu:0", SLICE_BEGIN, at(1), "step 1"), ("steps of npu:0", SLICE_END, at(4), "step 1"),
        ("thread 7", SLICE_BEGIN, at(1), "aten.mm"), ("thread 7", SLICE_END, at(3), "aten.mm"),
        ("thread 7", INSTANT, at(9), "here"), ("thread 7", INSTANT, at(10), "out of memory: 1099511627776 bytes"),
    ]  # fmt: skip
    assert sorted(perfetto_content(trace.recording())[1]) == sorted(expected)
    assert sorted(chrome_content(trace.recording())[1]) == sorted(expected)


def test_packets_are_of_one_sequence_with_names_before_their_use() -> None:
    """A reader resolves numbers of names by the packets before, of the same sequence, since its state was cleared."""
    trace = Trace()
    trace.malloc(100)
    trace.mark("here")
    packets = perfetto_packets(trace.recording())
    assert {numbers(packet, 10)[0] for packet in packets} == {1}
    flags = [numbers(packet, 13) for packet in packets if 60 not in packet]
    assert flags[0] == [1]
    assert flags[1:] == [[2]] * (len(flags) - 1)
    (process,) = messages(messages(packets[0], 60)[0], 3)
    assert numbers(process, 1) == [4242]
    assert text(process, 6) == TITLE


def test_without_times_events_stand_in_their_order() -> None:
    """One microsecond apart, and a line says so."""
    trace = Trace()
    for _ in range(3):
        trace.malloc(100)
    for row in trace.rows:
        row["timestamp_ns"] = 0
    counters, _ = perfetto_content(trace.recording())
    assert counters["npu:0 PTA in use"] == [(0, 100), (1000, 200), (2000, 300)]
    assert tracks_of(trace.recording()).notes != ()


def test_an_empty_recording_is_a_trace() -> None:
    """Nothing was recorded: nothing is shown, and the file is valid."""
    assert perfetto_content(Trace().recording()) == ({}, [])
    assert chrome_content(Trace().recording()) == ({}, [])


def test_perfetto_reads_it_with_its_own_classes() -> None:
    """The package of Perfetto knows every field, in its type."""
    pytest.importorskip("perfetto", reason="the package perfetto is not installed")
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2

    trace = Trace()
    trace.malloc(100, "train.py(3): load", pool=Pool.PTA)
    trace.add(EventKind.ATEN_START, name_id=trace.text("aten.mm"))
    trace.add(EventKind.ATEN_END, name_id=trace.text("aten.mm"))
    trace.mark("here")
    content = bytearray()
    write_perfetto(trace.recording(), content.extend, ExportChoice(TITLE))
    parsed = perfetto_trace_pb2.Trace()
    parsed.ParseFromString(bytes(content))
    assert parsed.SerializeToString() != b""
    from google.protobuf.unknown_fields import UnknownFieldSet

    event_type = perfetto_trace_pb2.TrackEvent
    for packet in parsed.packet:
        for message in (packet, packet.track_event, packet.track_descriptor, packet.interned_data):
            assert len(UnknownFieldSet(message)) == 0
    values = [one.track_event.counter_value for one in parsed.packet if one.track_event.type == event_type.TYPE_COUNTER]
    assert values == [100, 100]
    kinds = [one.track_event.type for one in parsed.packet if one.HasField("track_event")]
    expected = [event_type.TYPE_SLICE_BEGIN, event_type.TYPE_SLICE_END, event_type.TYPE_INSTANT]
    assert kinds[2:] == expected
    assert "trace_processor" not in sys.modules
