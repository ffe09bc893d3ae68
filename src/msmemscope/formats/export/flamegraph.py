"""Collapsed stacks, the input of flame graphs: a line per stack, `<outermost>;...;<innermost> <number>`.

https://github.com/brendangregg/FlameGraph describes the form, which inferno, speedscope and others read as well. A
semicolon parts frames and a line feed parts stacks, so frames have neither.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msmemscope.analysis.weights.weighted_stacks import COLUMN_OF, StackFrame, weighted_stacks
from msmemscope.formats.export.tracks import pool_name
from msmemscope.formats.output_place import Mark

if TYPE_CHECKING:
    from msmemscope.formats.export.export_choice import ExportChoice, Write
    from msmemscope.recording import Recording

FLAMEGRAPH_MARK: Final = Mark(end=b"msmemscope 0\n")
"""The last line is a stack that weighs nothing, which readers do not show."""
_SEPARATORS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def write_flamegraph(recording: Recording, write: Write, choice: ExportChoice) -> tuple[str, ...]:
    """Write collapsed stacks. The outermost frame is the pool: memory of the driver holds that of the other pools."""
    found = weighted_stacks(recording)
    lines: dict[str, int] = {}
    weights = found.of_pools().select("device", "pool", "stack", COLUMN_OF[choice.measure])
    for device, pool, stack, weight in weights.iter_rows():
        frames = (pool_name(device, pool), *map(_text, found.stacks[stack]))
        line = ";".join(map(_plain, frames))
        lines[line] = lines.get(line, 0) + weight
    for line, weight in lines.items():
        if weight:
            write(f"{line} {weight}\n".encode())
    write(FLAMEGRAPH_MARK.end)
    return ()


def _text(frame: StackFrame) -> str:
    if not frame.file:
        return frame.function
    return f"{frame.function} ({frame.file}:{frame.line})" if frame.line else f"{frame.function} ({frame.file})"


def _plain(text: str) -> str:
    return _SEPARATORS.sub(" ", text).replace(";", ":")
