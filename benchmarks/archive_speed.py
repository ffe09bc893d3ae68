"""Archives of event logs: seconds to write and to read them, and bytes per event, beside other ways to keep a log.

Run by itself it prints its table: `python benchmarks/archive_speed.py [--repeats N] [--events N]`. Each sample is a fresh
process. The peers are parquet of the same table (Polars, zstd, its columns as they are) and zstd of the segments.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from analysis_speed import MILLION, input_path
from measuring import Measurement, Target, Variant, measure, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

MOST_BYTES: Final = 10
"""Of an event in an archive."""
ARCHIVE, PARQUET, ZSTD = "archive", "parquet of the same table", "zstd of the segments"


def archive_speed(events: int = MILLION) -> Measurement:
    """Seconds to write; the rest are further figures."""

    def variant(name: str) -> Variant:
        return Variant(name, (sys.executable, str(Path(__file__).resolve()), f"--events={events}", f"--run={name}"))

    names = (PARQUET, ARCHIVE, *([ZSTD] if shutil.which("zstd") else []))
    return Measurement(
        name=f"archive of {events:,} events",
        unit="s to write",
        reference=PARQUET,
        variants=tuple(map(variant, names)),
        targets={ARCHIVE: Target("at most the time of parquet", lambda medians: medians[ARCHIVE] <= medians[PARQUET])},
    )


def write(name: str, log: Path, kept: Path) -> None:
    """Keep a log in some form, as `kept`."""
    import polars as pl

    from msmemscope.formats.event_log import Capture
    from msmemscope.formats.export.writing import Place, write_log_export

    if name == ZSTD:
        kept.mkdir()
        for path in (log / "event_log").iterdir():
            subprocess.run(["zstd", "-q", "-3", str(path), "-o", str(kept / f"{path.name}.zst")], check=True)
        return
    capture = Capture(log)
    if name == ARCHIVE:
        write_log_export(capture, "archive", Place(kept))
    else:
        pl.concat(list(capture.event_batches())).write_parquet(kept, compression="zstd", statistics=False)


def read(name: str, kept: Path) -> Iterator[pl.DataFrame]:
    """Yield its events."""
    import polars as pl

    from msmemscope.formats.event_log import Capture

    if name == PARQUET:
        yield pl.read_parquet(kept)
        return
    if name == ZSTD:
        log = Path("msmemscope_4242_20240101000000_ascend", "event_log")
        log.mkdir(parents=True)
        for path in kept.iterdir():
            subprocess.run(["zstd", "-q", "-d", str(path), "-o", str(log / path.stem)], check=True)
        kept = log
    yield from Capture(kept).event_batches()


def processor_seconds() -> float:
    """Of this process and those that it started."""
    begun = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + begun.ru_utime + begun.ru_stime


def main() -> None:
    """Measure, or be one of the measured processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="fresh processes of each variant")
    parser.add_argument("--events", type=int, default=MILLION)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.run:
        print(table(measure(archive_speed(arguments.events), arguments.repeats)))
        return
    import msmemscope.formats.export.writing
    import msmemscope.recording  # noqa: F401

    (log,) = input_path("event-log", arguments.events, 0.0).glob("msmemscope_*_ascend")
    kept = Path("kept")
    begin, begin_processor = time.perf_counter(), processor_seconds()
    write(arguments.run, log, kept)
    written, written_processor = time.perf_counter(), processor_seconds()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    begin_reading, begin_reading_processor = time.perf_counter(), processor_seconds()
    events = sum(batch.height for batch in read(arguments.run, kept))
    seconds, seconds_processor = time.perf_counter() - begin_reading, processor_seconds() - begin_reading_processor
    size = sum(path.stat().st_size for path in ([kept] if kept.is_file() else kept.iterdir()))
    figures = {
        "value": written - begin,
        "processor time s": written_processor - begin_processor,
        "s to read": seconds,
        "processor time s to read": seconds_processor,
        "bytes per event": size / events,
        "peak memory MiB": peak,
    }
    if arguments.run == ARCHIVE and figures["bytes per event"] > MOST_BYTES:
        message = f"an archive has {figures['bytes per event']:.1f} bytes per event; at most {MOST_BYTES} are promised"
        raise SystemExit(message)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
