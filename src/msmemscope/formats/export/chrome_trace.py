"""Traces in the JSON of Chrome's `about:tracing`, which Perfetto opens too: the same as `perfetto` writes.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU ("Trace Event Format").
Times are microseconds, counted from the first event. Readers keep them as floating-point numbers. At the present date,
the steps of such numbers would be a quarter of a microsecond.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.formats.export.tracks import tracks_of
from msmemscope.formats.output_place import Mark

if TYPE_CHECKING:
    from msmemscope.formats.export.export_choice import ExportChoice, Write
    from msmemscope.recording import Recording

CHROME_MARK: Final = Mark(begin=b'{"displayTimeUnit":"ns","otherData":{"exporter":"msmemscope",')
_ROWS: Final = 1 << 18
"""As many as are made into text at once."""


def write_chrome_trace(recording: Recording, write: Write, choice: ExportChoice) -> tuple[str, ...]:
    """Write a trace as JSON."""
    tracks = tracks_of(recording)
    process_id = recording.process_id
    times = (tracks.counts["time_ns"], tracks.slices["begin_ns"], tracks.instants["time_ns"])
    start = min((int(column.to_numpy().min()) for column in times if len(column)), default=0)
    write(CHROME_MARK.begin + f'"start_ns":"{start}"}},"traceEvents":[\n'.encode())
    write(_line({"ph": "M", "name": "process_name", "pid": process_id, "args": {"name": choice.title}}, before=""))
    # Rows of slices that are of no thread get numbers that no thread has.
    first_free = max(tracks.slice_tracks["thread_id"].drop_nulls().to_list(), default=0) + 1
    threads: dict[int, int] = {}
    for track, thread_id, name in tracks.slice_tracks.iter_rows():
        threads[track] = first_free + track if thread_id is None else thread_id
        thread = {"ph": "M", "name": "thread_name", "pid": process_id, "tid": threads[track], "args": {"name": name}}
        write(_line(thread))
    counters = _texts(tracks.counters["name"], f'"ph":"C","pid":{process_id}')
    for part in tracks.counts.iter_slices(_ROWS):
        head = part.join(counters, on="track", how="left", maintain_order="left")["head"]
        rows = part.select(
            pl.concat_str(
                pl.lit(",\n{"), head, pl.lit(',"ts":'), _microseconds("time_ns", start), pl.lit(',"args":{"bytes":'),
                pl.col("value").cast(pl.String), pl.lit("}}"),
            )
        )  # fmt: skip
        write(_joined(rows))
    thread_ids = pl.DataFrame(
        {"track": list(threads), "tid": list(threads.values())}, {"track": pl.UInt32(), "tid": pl.UInt64()}
    )
    for table, kind in ((tracks.slices, '"ph":"X"'), (tracks.instants, '"ph":"i","s":"t"')):
        names = table["name"].unique(maintain_order=True)
        heads = _texts(names, f'{kind},"pid":{process_id}').with_columns(name=names)
        for part in table.iter_slices(_ROWS):
            described = part.join(heads.select("name", "head"), on="name", how="left", maintain_order="left").join(
                thread_ids, on="track", how="left", maintain_order="left"
            )
            is_slice = "begin_ns" in described.columns
            begin = "begin_ns" if is_slice else "time_ns"
            duration = (
                [pl.lit(',"dur":'), _decimal(pl.col("end_ns") - pl.col("begin_ns"))] if is_slice else [pl.lit("")]
            )
            rows = described.select(
                pl.concat_str(
                    pl.lit(",\n{"), pl.col("head"), pl.lit(',"tid":'), pl.col("tid").cast(pl.String), pl.lit(',"ts":'),
                    _microseconds(begin, start), *duration, pl.lit("}"),
                )
            )  # fmt: skip
            write(_joined(rows))
    write(b"\n]}\n")
    return tracks.notes


def _line(content: dict[str, object], before: str = ",\n") -> bytes:
    return f"{before}{json.dumps(content)}".encode()


def _texts(names: pl.Series, fields: str) -> pl.DataFrame:
    """Return for each name, by its number, the begin of the events of that name."""
    heads = [f'"name":{json.dumps(name)},{fields}' for name in names]
    return pl.DataFrame({"head": heads}, {"head": pl.String()}).with_row_index("track")


def _microseconds(column: str, start_ns: int) -> pl.Expr:
    return _decimal(pl.col(column) - pl.lit(start_ns, dtype=pl.UInt64))


def _decimal(nanoseconds: pl.Expr) -> pl.Expr:
    """Write nanoseconds as microseconds with three digits behind the point."""
    rest = (nanoseconds % 1000).cast(pl.String).str.zfill(3)
    return pl.concat_str((nanoseconds // 1000).cast(pl.String), pl.lit("."), rest)


def _joined(rows: pl.DataFrame) -> bytes:
    text: str = rows.to_series().str.join("")[0]
    return text.encode()
