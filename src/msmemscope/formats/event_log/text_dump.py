"""An event log as text: every field of every event, one line each."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.formats.event_log.event_frame import device_text
from msmemscope.model.events import EventFlag, EventKind
from msmemscope.model.pools import POOL_WORDS

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import TextIO

    from msmemscope.formats.event_log.capture import Capture

EVENT_COLUMNS: Final = (
    "sequence timestamp_ns thread device kind pool address size flags extra python_stack native_stack name attributes"
)
"""Names of the fields of an event's line, which are separated by one tab each."""

_NOTHING: Final = "-"
_BATCH_ROWS: Final = 16_384


def write_text(
    capture: Capture,
    out: TextIO,
    *,
    limit: int | None = None,
    kinds: Collection[EventKind] | None = None,
    definitions: bool = False,
) -> None:
    """Write a capture as text: header, facts, definitions if wanted, then events as they come.

    Args:
        capture: The capture to show.
        out: Where to write.
        limit: Most events to show; None shows all.
        kinds: Kinds of events to show; None shows all.
        definitions: Show strings, code objects, stacks and modules as well.
    """
    _write_header(capture, out)
    if definitions:
        _write_definitions(capture, out)
    out.write("# " + EVENT_COLUMNS.replace(" ", "\t") + "\n")
    if limit is not None and limit <= 0:
        return
    left = limit
    for batch in capture.event_batches(_BATCH_ROWS):
        shown = batch if kinds is None else batch.filter(pl.col("kind").is_in([int(kind) for kind in kinds]))
        if left is not None:
            shown = shown.head(left)
            left -= len(shown)
        if not shown.is_empty():
            out.write("\n".join(_event_lines(capture, shown).to_list()) + "\n")
        if left == 0:
            return


def _write_header(capture: Capture, out: TextIO) -> None:
    out.write(f"# capture {_one_line(str(capture.directory))}\n")
    if not capture.header_is_complete:
        out.write("# the process was killed before it wrote its header\n")
    for name, value in asdict(capture.header).items():
        text = value.name.lower() if name == "state" else str(value)
        out.write(f"header {name}={f'{value:016x}' if name == 'session' else text}\n")
    out.writelines(f"# left out: {_one_line(problem)}\n" for problem in capture.problems)
    for key, values in capture.facts.items():
        for value in values:
            out.write(f"fact {_one_line(key)}={_one_line(value)}\n")


def _write_definitions(capture: Capture, out: TextIO) -> None:
    known = capture.definitions
    out.writelines(
        f"module {module.start:#x}-{module.end:#x} bias={module.load_bias:#x} seen={module.seen_at_sequence} "
        f"build_id={module.build_id.hex() or _NOTHING} {_one_line(module.path)}\n"
        for module in known.modules
    )
    out.writelines(f"string {string_id} {_one_line(text)}\n" for string_id, text in capture.strings.items())
    out.writelines(f"code {code_id} {_one_line(capture.function_text(code_id))}\n" for code_id in known.code_ids())
    for stack_id in known.python_stack_ids():
        frames = " < ".join(str(frame) for frame in capture.python_stack_frames(stack_id))
        out.write(f"python_stack {stack_id} {_one_line(frames)}\n")
    for stack_id in known.native_stack_ids():
        addresses = " ".join(f"{address:#x}" for address in known.native_stack(stack_id))
        out.write(f"native_stack {stack_id} {addresses}\n")


def _event_lines(capture: Capture, events: pl.DataFrame) -> pl.Series:
    """Render events; the fields are those of EVENT_COLUMNS, in that order."""
    kinds = _word_table({kind: kind.name for kind in EventKind})
    pools = _word_table({0: _NOTHING, **POOL_WORDS})
    flags = pl.Series([_flag_text(value) for value in range(256)])
    addresses = pl.Series([f"{address:#x}" for address in events["address"].to_list()], dtype=pl.String)
    texts = {}
    for column in ("name_id", "attribute_id"):
        strings = capture.string_frame(events[column])
        strings = strings.with_columns(pl.Series("text", map(_one_line, strings["text"].to_list()), dtype=pl.String))
        ids = events.select(id=pl.col(column))
        texts[column] = ids.join(strings, on="id", how="left", maintain_order="left")["text"]
    return events.select(
        pl.concat_str(
            pl.col("sequence", "timestamp_ns", "thread_id").cast(pl.String),
            device_text(pl.col("device")),
            pl.lit(kinds).gather(pl.col("kind")),
            pl.lit(pools).gather(pl.col("pool")),
            pl.lit(addresses),
            pl.col("size").cast(pl.String),
            pl.lit(flags).gather(pl.col("flags")),
            pl.col("extra", "python_stack_id", "native_stack_id").cast(pl.String),
            pl.lit(texts["name_id"]).fill_null(_NOTHING),
            pl.lit(texts["attribute_id"]).fill_null(_NOTHING),
            separator="\t",
        )
    ).to_series()


def _word_table(words: dict[int, str]) -> pl.Series:
    """Return a word for each value of a byte; a value that this version does not know shows as itself."""
    return pl.Series([words.get(value, str(value)) for value in range(256)])


def _flag_text(value: int) -> str:
    names = [str(flag.name).lower() for flag in EventFlag if value & flag]
    return "|".join(names) or _NOTHING


def _one_line(text: str) -> str:
    r"""Return text without line feeds, tabs and other control characters: `\n` and the like instead."""
    return text.encode("unicode_escape").decode("ascii") if not text.isprintable() else text
