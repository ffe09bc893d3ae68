"""Files of https://www.speedscope.app: stacks weighted by bytes, one profile per pool and measure.

The schema: https://www.speedscope.app/file-format-schema.json.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from msmemscope.analysis.weights.measures import Measure
from msmemscope.analysis.weights.weighted_stacks import COLUMN_OF, StackFrame, weighted_stacks
from msmemscope.formats.export.tracks import pool_name
from msmemscope.formats.output_place import Mark

if TYPE_CHECKING:
    from msmemscope.formats.export.export_choice import ExportChoice, Write
    from msmemscope.recording import Recording

SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"
_EXPORTER: Final = "msmemscope"
SPEEDSCOPE_MARK: Final = Mark(begin=b"{", near_begin=f'"exporter": "{_EXPORTER}"'.encode())
_WORDS: Final = {
    Measure.PEAK: ("in use at the peak", "bytes"),
    Measure.LEAKED: ("leaked", "bytes"),
    Measure.ALLOCATED: ("allocated", "bytes"),
    Measure.BYTE_SECONDS: ("byte-seconds", "none"),
}
"""The name of a profile of each measure, and its unit: the schema has none for byte-seconds."""


def write_speedscope(recording: Recording, write: Write, choice: ExportChoice) -> tuple[str, ...]:
    """Write profiles for speedscope."""
    found = weighted_stacks(recording)
    numbers: dict[StackFrame, int] = {}
    samples = [[numbers.setdefault(frame, len(numbers)) for frame in stack] for stack in found.stacks]
    profiles = []
    for (device, pool), part in found.of_pools().partition_by("device", "pool", as_dict=True).items():
        for measure in Measure:
            column = COLUMN_OF[measure]
            weighted = part.filter(part[column] != 0)
            words, unit = _WORDS[measure]
            profiles.append(
                {
                    "type": "sampled",
                    "name": f"{pool_name(device, pool)}: {words}",
                    "unit": unit,
                    "startValue": 0,
                    "endValue": weighted[column].sum(),
                    "samples": [samples[stack] for stack in weighted["stack"]],
                    "weights": weighted[column].to_list(),
                }
            )
    content = {
        "$schema": SCHEMA,
        "name": choice.title,
        "exporter": _EXPORTER,
        "activeProfileIndex": 0,
        "shared": {"frames": list(map(_frame, numbers))},
        "profiles": profiles or [_EMPTY],
    }
    for piece in json.JSONEncoder().iterencode(content):
        write(piece.encode())
    return ()


_EMPTY: Final[dict[str, Any]] = {
    "type": "sampled", "name": "no memory", "unit": "bytes", "startValue": 0, "endValue": 0, "samples": [], "weights": [],
}  # fmt: skip
"""The only profile of a recording without blocks: a file has at least one."""


def _frame(frame: StackFrame) -> dict[str, str | int]:
    place: dict[str, str | int] = {"file": frame.file} if frame.file else {}
    return {"name": frame.function, **place, **({"line": frame.line} if frame.line else {})}
