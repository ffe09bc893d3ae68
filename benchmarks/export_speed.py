"""Export of one million events to CSV and to DB files, beside writing them row by row.

Run by itself it prints both tables: `python benchmarks/export_speed.py [--repeats N] [--events N]`.
Each sample is a fresh process that reports its own peak memory.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import sqlite3
import struct
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measuring import Measurement, Target, Variant, measure, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msmemscope.formats.event_log import Capture

DEFAULT_EVENTS = 1_000_000
TARGET_SECONDS = {"csv": 5.0, "db": 10.0}

_EVENTS_PER_BLOCK = 6
_OPERATORS = 200
_STACKS = 3_000
_STACK_DEPTH = 12
_SEGMENTS = 3


def export_speed(data_format: str, *, events: int = DEFAULT_EVENTS) -> Measurement:
    """One format: ours without and with Python stacks, and a plain loop over rows."""

    def variant(name: str, writer: str) -> Variant:
        command = (sys.executable, str(Path(__file__).resolve()), f"--events={events}", f"--run={writer}-{data_format}")
        return Variant(name, command)

    ours, peer = "write_dumps", "row by row"
    limit = TARGET_SECONDS[data_format] * events / DEFAULT_EVENTS
    return Measurement(
        name=f"export to {data_format}, {events:,} events",
        unit="s",
        reference=peer,
        variants=(
            variant(ours, "ours"),
            variant("write_dumps, stacks of 12 frames", "stacks"),
            variant(peer, "rows"),
        ),
        targets={ours: Target(f"at most {limit:g} s", lambda medians: medians[ours] <= limit)},
    )


def build_event_log(root: Path, events: int) -> None:
    """Write an event log as a training program leaves it: operators, blocks, accesses, stacks."""
    import numpy as np
    from dump_generator import RECORD, packed

    from msmemscope.formats.event_log import layout
    from msmemscope.model.devices import DEVICE_CPU
    from msmemscope.model.events import EventKind
    from msmemscope.model.pools import Pool

    log = root / "msmemscope_1_20240101000000_ascend" / "event_log"
    log.mkdir(parents=True)
    header = np.zeros(1, layout.PROCESS_HEADER)
    for name, value in {
        "magic": layout.PROCESS_MAGIC, "byte_order_mark": layout.BYTE_ORDER_MARK, "format_version": 1,
        "header_bytes": 152, "record_bytes": 64, "state": layout.CaptureState.CLOSED, "process_id": 1,
    }.items():  # fmt: skip
        header[name] = value
    (log / "process.header").write_bytes(header.tobytes())

    definitions = bytearray()

    def define(kind: int, identity: int, payload: bytes) -> int:
        head = struct.pack("<IHHII", layout.DEFINITION_COMMIT, kind, 0, identity, len(payload))
        definitions.extend(head + payload + bytes(-len(payload) % 8))
        return identity

    names = [define(1, 1 + i, f"torch._ops.aten.operator_{i}.default".encode()) for i in range(_OPERATORS)]
    shapes = [
        define(1, 1001 + i, f"dtype:torch.float32,shape:torch.Size([{i}, 1024])".encode()) for i in range(_OPERATORS)
    ]
    for i in range(_OPERATORS):
        define(1, 2001 + i, f"/usr/lib/python3/site-packages/package/module_{i}.py".encode())
        define(2, 1 + i, struct.pack("<6I", 2001 + i, names[i], i, 0, 0, 0))
    random = np.random.default_rng(1)
    for i in range(_STACKS):
        frames = random.integers(1, _OPERATORS, size=(_STACK_DEPTH, 2), dtype=np.uint32)
        define(3, 1 + i, frames.tobytes())
    _write_segment(log / "definitions_0.segment", layout.DEFINITION_SEGMENT_MAGIC, bytes(definitions))

    sequence = np.arange(1, events + 1)
    step, block = (sequence - 1) % _EVENTS_PER_BLOCK, (sequence - 1) // _EVENTS_PER_BLOCK
    kinds = (
        EventKind.ATEN_START, EventKind.MALLOC, EventKind.ACCESS_WRITE, EventKind.ACCESS_READ, EventKind.ATEN_END,
        EventKind.FREE,
    )  # fmt: skip
    records = np.zeros(events, RECORD)
    records["kind"] = np.array(kinds)[step]
    has_block = np.isin(step, [1, 2, 3, 5])
    records["sequence"] = sequence
    records["timestamp_ns"] = 1_700_000_000_000_000_000 + sequence * 1000
    records["address"] = np.where(has_block, 0x7F0000000000 + block % 5000 * 4096, 0)
    records["size"] = np.where(has_block, 512 + block % 100 * 512, 0)
    records["thread_id"] = 1
    records["device"] = DEVICE_CPU
    records["pool"] = np.where(has_block, Pool.HOST, 0)
    records["name_id"] = np.array(names)[block % _OPERATORS]
    records["attribute_id"] = np.where((step == 2) | (step == 3), np.array(shapes)[block % _OPERATORS], 0)
    records["python_stack_id"] = 1 + block % _STACKS
    records["extra"] = np.where(has_block & (step != 1), block * _EVENTS_PER_BLOCK + 2, 0)
    for number in range(_SEGMENTS):
        part = packed(records[sequence // 1000 % _SEGMENTS == number])
        _write_segment(log / f"events_{number}.segment", layout.EVENT_SEGMENT_MAGIC, part.tobytes())


def _write_segment(path: Path, magic: int, content: bytes) -> None:
    from msmemscope.formats.event_log import layout

    header = struct.pack("<QQII", magic, layout.BYTE_ORDER_MARK, layout.FORMAT_VERSION, 0)
    path.write_bytes(header.ljust(layout.SEGMENT_DATA_OFFSET, b"\0") + content)


def export(capture: Capture, data_format: str, *, with_stacks: bool) -> None:
    """Write the dump as the tool does."""
    from msmemscope.configuration import Config, DataFormat
    from msmemscope.formats.dump import write_dumps

    write_dumps(capture, Config(data_format=DataFormat(data_format), python_stack=with_stacks))


def export_row_by_row(capture: Capture, data_format: str, path: Path) -> None:
    """Write the same columns without stacks, one row at a time: what one writes first."""
    if data_format == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            for row in _rows(capture, "{{allocation_id:{},addr:0x{:016x},size:{}{}}}", ",{}"):
                writer.writerow(row)
        return
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE dump (a, b, c, d, e, f, g, h, i, j, k, l)")
        for row in _rows(capture, '{{"allocation_id":"{}","addr":"0x{:016x}","size":"{}"{}}}', ',"text":"{}"'):
            connection.execute("INSERT INTO dump VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        connection.commit()


def _rows(capture: Capture, attribute_form: str, more_form: str) -> Iterator[tuple[Any, ...]]:
    from msmemscope.model.devices import device_word
    from msmemscope.model.events import EVENT_TYPE_WORDS, EVENT_WORDS, EventKind
    from msmemscope.model.pools import POOL_WORDS

    live = 0
    strings = capture.strings
    for batch in capture.event_batches():
        for event in batch.iter_rows(named=True):
            kind = event["kind"]
            attributes = ""
            pointer = "N/A"
            if event["address"]:
                block = event["sequence"] if kind == EventKind.MALLOC else event["extra"]
                live += {EventKind.MALLOC: event["size"], EventKind.FREE: -event["size"]}.get(kind, 0)
                more = strings[event["attribute_id"]] if event["attribute_id"] else f"total:{live}"
                pointer = f"0x{event['address']:016x}"
                attributes = attribute_form.format(block, event["address"], event["size"], more_form.format(more))
            yield (
                event["sequence"], EVENT_WORDS[kind], EVENT_TYPE_WORDS.get(kind) or POOL_WORDS[event["pool"]],
                strings[event["name_id"]], event["timestamp_ns"], capture.header.process_id, event["thread_id"],
                device_word(event["device"]), pointer, attributes, "", "",
            )  # fmt: skip


def run(writer: str, data_format: str, events: int) -> None:
    """Build a log in the current folder, export it, and print seconds and peak memory as JSON."""
    subprocess.run([sys.executable, __file__, f"--events={events}", "--build"], check=True)
    from msmemscope.formats.event_log import Capture

    (directory,) = Path.cwd().glob("msmemscope_*_ascend")
    begin = time.perf_counter()
    capture = Capture(directory)
    if writer == "rows":
        export_row_by_row(capture, data_format, directory / f"rows.{data_format}")
    else:
        export(capture, data_format, with_stacks=writer == "stacks")
    seconds = time.perf_counter() - begin
    size = max(path.stat().st_size for path in directory.rglob(f"*.{data_format}"))
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"value": seconds, "peak memory MiB": peak_mib, "file MiB": size / 2**20}))


def main() -> None:
    """Measure both formats, or be one of the measured processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="fresh processes of each variant")
    parser.add_argument("--events", type=int, default=DEFAULT_EVENTS)
    parser.add_argument("--build", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.build:
        build_event_log(Path.cwd(), arguments.events)
    elif arguments.run:
        writer, _, data_format = arguments.run.partition("-")
        run(writer, data_format, arguments.events)
    else:
        for data_format in TARGET_SECONDS:
            outcome = measure(export_speed(data_format, events=arguments.events), arguments.repeats)
            print(table(outcome), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
