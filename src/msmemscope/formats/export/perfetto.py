"""Traces of Perfetto: counters, slices and instants as packets of a track event data source.

The messages and the numbers of their fields are those of `protos/perfetto/trace` of Perfetto, described in
https://perfetto.dev/docs/reference/synthetic-track-event. If the package `perfetto` is installed, the tests read the
written traces with its classes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from msmemscope.formats.export.protobuf import (
    MessageColumn,
    NumberColumn,
    bytes_field,
    encoded,
    number_field,
    text_field,
)
from msmemscope.formats.export.tracks import pool_name, tracks_of
from msmemscope.formats.output_place import Mark

if TYPE_CHECKING:
    from msmemscope.formats.export.export_choice import ExportChoice, Write
    from msmemscope.recording import Recording

_TRACE_PACKET: Final = 1
_SEQUENCE_ID: Final = 1
"""Of the only writer of packets."""
_STATE_CLEARED: Final = 1
_NEEDS_STATE: Final = 2
_UNIT_BYTES: Final = 3
_PACKETS: Final = 1 << 18
"""As many as are encoded at once."""
_PROCESS_UUID: Final = 1
_PROCESS_LABELS: Final = 8
PERFETTO_MARK: Final = Mark(near_begin=text_field(_PROCESS_LABELS, "msmemscope"))


class _Packet(IntEnum):
    """Fields of `TracePacket`."""

    TIMESTAMP = 8
    SEQUENCE_ID = 10
    TRACK_EVENT = 11
    INTERNED_DATA = 12
    SEQUENCE_FLAGS = 13
    TRACK_DESCRIPTOR = 60


class _Event(IntEnum):
    """Fields of `TrackEvent`."""

    TYPE = 9
    NAME_IID = 10
    TRACK_UUID = 11
    COUNTER_VALUE = 30


class _Type(IntEnum):
    """`TrackEvent.Type`."""

    SLICE_BEGIN = 1
    SLICE_END = 2
    INSTANT = 3
    COUNTER = 4


class _Track(IntEnum):
    """Fields of `TrackDescriptor`."""

    UUID = 1
    NAME = 2
    PROCESS = 3
    THREAD = 4
    PARENT_UUID = 5
    COUNTER = 8


def write_perfetto(recording: Recording, write: Write, choice: ExportChoice) -> tuple[str, ...]:
    """Write a trace of Perfetto."""
    tracks = tracks_of(recording)
    process_id = max(recording.process_id, 1)  # 0 is the idle process of the kernel
    process = number_field(1, process_id) + PERFETTO_MARK.near_begin + text_field(6, choice.title)
    write(_described(number_field(_Track.UUID, _PROCESS_UUID) + bytes_field(_Track.PROCESS, process)))
    uuid = _PROCESS_UUID + 1
    pools: dict[tuple[int, int], int] = {}
    for device, pool in tracks.counters.select("device", "pool").unique(maintain_order=True).iter_rows():
        pools[device, pool] = uuid
        write(_described(_track(uuid, pool_name(device, pool), _PROCESS_UUID)))
        uuid += 1
    first_counter = uuid
    for device, pool, name in tracks.counters.select("device", "pool", "name").iter_rows():
        counter = bytes_field(_Track.COUNTER, number_field(3, _UNIT_BYTES))
        write(_described(_track(uuid, name, pools[device, pool]) + counter))
        uuid += 1
    first_slices = uuid
    for thread_id, name in tracks.slice_tracks.select("thread_id", "name").iter_rows():
        if thread_id is None:
            write(_described(_track(uuid, name, _PROCESS_UUID)))
        else:
            thread = bytes_field(_Track.THREAD, number_field(1, process_id) + number_field(2, thread_id))
            write(_described(number_field(_Track.UUID, uuid) + thread))
        uuid += 1
    names = pl.concat([tracks.slices["name"], tracks.instants["name"]]).unique(maintain_order=True)
    write(_interned(names))
    for part in tracks.counts.iter_slices(_PACKETS):
        fields = {
            _Event.TYPE: np.full(len(part), _Type.COUNTER),
            _Event.TRACK_UUID: part["track"].to_numpy() + np.uint64(first_counter),
            _Event.COUNTER_VALUE: part["value"].to_numpy(),
        }
        write(_packets(part["time_ns"].to_numpy(), fields))
    for begins, is_instant in ((tracks.slices, False), (tracks.instants, True)):
        for part in begins.iter_slices(_PACKETS):
            identities = _identities(part["name"], names)
            uuids = part["track"].to_numpy() + np.uint64(first_slices)
            if is_instant:
                fields = {_Event.TYPE: np.full(len(part), _Type.INSTANT), _Event.TRACK_UUID: uuids}
                write(_packets(part["time_ns"].to_numpy(), {**fields, _Event.NAME_IID: identities}))
                continue
            # The begin and the end of one slice stand next to each other: where times are equal, their order counts.
            fields = {
                _Event.TYPE: np.tile([_Type.SLICE_BEGIN, _Type.SLICE_END], len(part)),
                _Event.TRACK_UUID: np.repeat(uuids, 2),
                _Event.NAME_IID: np.repeat(identities, 2),
            }
            write(_packets(part.select("begin_ns", "end_ns").to_numpy().ravel(), fields))
    return tracks.notes


def _track(uuid: int, name: str, parent: int) -> bytes:
    return number_field(_Track.UUID, uuid) + text_field(_Track.NAME, name) + number_field(_Track.PARENT_UUID, parent)


def _described(descriptor: bytes) -> bytes:
    content = bytes_field(_Packet.TRACK_DESCRIPTOR, descriptor) + number_field(_Packet.SEQUENCE_ID, _SEQUENCE_ID)
    return bytes_field(_TRACE_PACKET, content)


def _interned(names: pl.Series) -> bytes:
    """Return the packet that numbers names, from 1 on, for all packets behind it."""
    entries = (number_field(1, number) + text_field(2, name) for number, name in enumerate(names, 1))
    data = b"".join(bytes_field(2, entry) for entry in entries)
    content = (
        number_field(_Packet.SEQUENCE_ID, _SEQUENCE_ID)
        + number_field(_Packet.SEQUENCE_FLAGS, _STATE_CLEARED)
        + bytes_field(_Packet.INTERNED_DATA, data)
    )
    return bytes_field(_TRACE_PACKET, content)


def _identities(names: pl.Series, known: pl.Series) -> np.ndarray[Any, np.dtype[np.uint64]]:
    numbers = pl.DataFrame({"name": known}).with_row_index("number", offset=1)
    found = names.to_frame("name").join(numbers, on="name", how="left", maintain_order="left")["number"]
    identities: np.ndarray[Any, np.dtype[np.uint64]] = found.cast(pl.UInt64).to_numpy()
    return identities


def _packets(times_ns: np.ndarray[Any, Any], event: dict[_Event, np.ndarray[Any, Any]]) -> memoryview:
    constant = np.ones(len(times_ns), np.uint64)
    return encoded(
        MessageColumn(
            _TRACE_PACKET,
            (
                NumberColumn(_Packet.TIMESTAMP, times_ns),
                NumberColumn(_Packet.SEQUENCE_ID, constant * np.uint64(_SEQUENCE_ID)),
                NumberColumn(_Packet.SEQUENCE_FLAGS, constant * np.uint64(_NEEDS_STATE)),
                MessageColumn(_Packet.TRACK_EVENT, [NumberColumn(field, values) for field, values in event.items()]),
            ),
        )
    )
