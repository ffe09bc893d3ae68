"""Recordings whose numbers may be anything: damaged files are read as far as they go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from msmemscope.formats.event_log.event_segments import MOST_BYTES
from msmemscope.model.events import EventKind
from tests.fakes.traces import Trace

if TYPE_CHECKING:
    from msmemscope.recording import Recording

LARGEST = (1 << 64) - 1
_numbers = st.one_of(st.integers(0, 1 << 20), st.integers(LARGEST - 4096, LARGEST), st.integers(0, LARGEST))
_LATEST = (1 << 63) - 1
"""No reader lets a later time through."""
_times = st.one_of(st.integers(0, 1 << 20), st.integers(_LATEST - 4096, _LATEST), st.integers(0, _LATEST))
_few = st.integers(0, 3)
events = st.fixed_dictionaries(
    {
        "kind": st.one_of(st.sampled_from([1, 1, 1, 2, 2]), st.sampled_from(list(map(int, EventKind)))),
        "address": _numbers,
        "size": st.one_of(st.integers(0, 5000), st.integers(0, MOST_BYTES)),
        "pool": st.integers(0, 12),
        "device": st.sampled_from([0, 1, -1, -2, 1024, 1025, 5000, 32767, -32768]),
        "extra": st.one_of(st.integers(0, 15), _numbers),
        "thread_id": st.sampled_from([0, 7, (1 << 32) - 1]),
        "name_id": _few,
        "attribute_id": _few,
        "python_stack_id": _few,
        "native_stack_id": _few,
        "flags": st.integers(0, 255),
        "timestamp_ns": _times,
    }
)
SAME_ADDRESS = dict.fromkeys(
    ("extra", "thread_id", "name_id", "attribute_id", "python_stack_id", "native_stack_id", "flags", "timestamp_ns"), 0
) | {"kind": 1, "address": LARGEST - 4096, "size": 1, "pool": 1, "device": 1}


def damaged_recording(rows: list[dict[str, Any]]) -> Recording:
    """Return a recording of events whose numbers are what they are."""
    trace = Trace()
    trace.text("aten.mm")
    trace.text('{"not": attributes')
    for row in rows:
        fields = {name: value for name, value in row.items() if name not in {"kind", "timestamp_ns"}}
        trace.add(row["kind"], **fields)
        trace.rows[-1]["timestamp_ns"] = row["timestamp_ns"]
    return trace.recording()
