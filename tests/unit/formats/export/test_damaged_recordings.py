"""Whatever numbers stand in a recording, each format is written: damaged files are read as far as they go."""

from __future__ import annotations

import json
import pickle
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from msmemscope.formats.event_log.event_segments import MOST_BYTES
from msmemscope.formats.export.export_choice import ExportChoice
from msmemscope.formats.export.export_formats import EXPORT_FORMATS
from msmemscope.model.events import EventKind
from tests.fakes.traces import Trace

LARGEST = (1 << 64) - 1
numbers = st.one_of(st.integers(0, 1 << 20), st.integers(LARGEST - 4096, LARGEST), st.integers(0, LARGEST))
few = st.integers(0, 3)
events = st.fixed_dictionaries(
    {
        "kind": st.one_of(st.sampled_from([1, 1, 1, 2, 2]), st.sampled_from(list(map(int, EventKind)))),
        "address": numbers,
        "size": st.one_of(st.integers(0, 5000), st.integers(0, MOST_BYTES)),
        "pool": st.integers(0, 12),
        "device": st.sampled_from([0, 1, -1, -2, 1024, 1025, 5000, 32767, -32768]),
        "extra": st.one_of(st.integers(0, 15), numbers),
        "thread_id": st.sampled_from([0, 7, (1 << 32) - 1]),
        "name_id": few,
        "attribute_id": few,
        "python_stack_id": few,
        "native_stack_id": few,
        "flags": st.integers(0, 255),
        "timestamp_ns": numbers,
    }
)


SAME_ADDRESS = dict.fromkeys(
    ("extra", "thread_id", "name_id", "attribute_id", "python_stack_id", "native_stack_id", "flags", "timestamp_ns"), 0
) | {"kind": 1, "address": LARGEST - 4096, "size": 1, "pool": 1, "device": 1}


@settings(max_examples=40)
@example([SAME_ADDRESS, SAME_ADDRESS])
@given(st.lists(events, max_size=15))
def test_any_numbers_are_exported(rows: list[dict[str, Any]]) -> None:
    """Addresses at the end of what numbers reach, centuries between events, devices and pools that nobody knows."""
    trace = Trace()
    trace.text("aten.mm")
    trace.text('{"not": attributes')
    for row in rows:
        fields = {name: value for name, value in row.items() if name not in {"kind", "timestamp_ns"}}
        trace.add(row["kind"], **fields)
        trace.rows[-1]["timestamp_ns"] = row["timestamp_ns"]
    recording = trace.recording()
    for name, one in EXPORT_FORMATS.items():
        if one.write_folder is not None:
            with tempfile.TemporaryDirectory() as folder:
                one.write_folder(recording, Path(folder))
        if one.write is not None:
            content = bytearray()
            one.write(recording, content.extend, ExportChoice("a run"))
            if one.suffix.endswith(".json"):
                json.loads(content)
            if name == "torch-snapshot":
                snapshot = pickle.loads(bytes(content))  # noqa: S301 - written a moment ago
                for segment in snapshot["segments"]:
                    assert segment["total_size"] == sum(block["size"] for block in segment["blocks"])
