"""Whatever numbers stand in a recording, each format is written: damaged files are read as far as they go."""

from __future__ import annotations

import json
import pickle
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from msmemscope.formats.export.export_choice import ExportChoice
from msmemscope.formats.export.export_formats import EXPORT_FORMATS
from tests.support.damaged_traces import SAME_ADDRESS, damaged_recording, events
from tests.support.nightly import examples


@examples(by_day=15)
@example([SAME_ADDRESS, SAME_ADDRESS])
@given(st.lists(events, max_size=15))
def test_any_numbers_are_exported(rows: list[dict[str, Any]]) -> None:
    """Addresses at the end of what numbers reach, centuries between events, devices and pools that nobody knows."""
    recording, choice = damaged_recording(rows), ExportChoice("a run")
    for name, one in EXPORT_FORMATS.items():
        if one.write_folder is not None:
            with tempfile.TemporaryDirectory() as folder:
                one.write_folder(recording, Path(folder), choice)
        if one.write is not None:
            content = bytearray()
            one.write(recording, content.extend, choice)
            if one.suffix.endswith(".json"):
                json.loads(content)
            if name == "torch-snapshot":
                snapshot = pickle.loads(bytes(content))  # noqa: S301 - written a moment ago
                for segment in snapshot["segments"]:
                    assert segment["total_size"] == sum(block["size"] for block in segment["blocks"])
