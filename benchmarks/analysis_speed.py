"""Analyses of long results: seconds and peak memory, beside a loop that reads the same rows one by one.

Run by itself it prints its tables: `python benchmarks/analysis_speed.py [--repeats N]`. Each sample is a fresh process
that reports its own peak memory. Inputs are made once by `dump_generator` and kept beside the results.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dump_generator import MARK
from measuring import Measurement, Target, Variant, measure, table

if TYPE_CHECKING:
    from collections.abc import Callable

INPUTS = Path(__file__).parent / "results" / "inputs"
MILLION = 1_000_000


class Limit(NamedTuple):
    """The limits that are promised for an analysis of one input."""

    seconds: float
    peak_mib: float | None = None


ON_CSV = {"leaks": Limit(0.7), "leaks between marks": Limit(0.7), "inefficient": Limit(1.5, 500)}
ON_DB = ("leaks", "inefficient")
ON_EVENT_LOG = ("leaks", "inefficient", "growth", "operators", "decompose", "peak")
EVENT_LOG_LIMIT = Limit(10, 3 * 1024)
EXIT_ANALYSES = {
    "default options": ("leaks", Limit(1)),
    "--analysis=leaks,inefficient,decompose": ("leaks,inefficient,decompose", None),
}
EXIT_FORMATS = {"csv": "", "db": ", --data-format=db"}
COMPARISONS = {0.01: Limit(5), 0.1: Limit(15)}


def analyses_of_csv(events: int = MILLION) -> Measurement:
    """The analyses of the published interface, of one CSV file."""
    return _measurement(
        f"analyses, CSV of {events:,} rows",
        {name: (f"--run={name}", "csv", events, 0.0, limit) for name, limit in ON_CSV.items()},
        ("--run=rows", "csv", events),
    )


def analyses_of_database(events: int = MILLION) -> Measurement:
    """The same of one DB file."""
    return _measurement(
        f"analyses, DB of {events:,} rows",
        {name: (f"--run={name}", "db", events, 0.0, None) for name in ON_DB},
        ("--run=database rows", "db", events),
    )


def analyses_of_event_log(events: int = 10 * MILLION) -> Measurement:
    """Every analysis, of a long event log."""
    return _measurement(
        f"analyses, event log of {events:,} events",
        {name: (f"--run={name}", "event-log", events, 0.0, EVENT_LOG_LIMIT) for name in ON_EVENT_LOG},
        ("--run=events", "event-log", events),
    )


def exit_work(events: int = MILLION) -> Measurement:
    """The work after the end of a run: dumps, analyses and the summary, of one process."""
    return _measurement(
        f"exit work, run of {events:,} events",
        {
            f"{name}{also}": ("--run=exit", f"event-log:{words}:{form}", events, 0.0, limit)
            for name, (words, limit) in EXIT_ANALYSES.items()
            for form, also in EXIT_FORMATS.items()
        },
        ("--run=events", "event-log", events),
    )


def comparisons(events: int = MILLION) -> Measurement:
    """Two CSV files that differ in some operators."""
    return _measurement(
        f"comparison, two CSV files of {events:,} rows",
        {
            f"{share:.0%} of the operators differ": ("--run=compare", "csv", events, share, limit)
            for share, limit in COMPARISONS.items()
        },
        ("--run=rows", "csv", events),
    )


def _measurement(
    name: str, ours: dict[str, tuple[str, str, int, float, Limit | None]], peer: tuple[str, str, int]
) -> Measurement:
    reference = "reading row by row"
    variants = [Variant(reference, _command(*peer, 0.0))]
    targets = {}
    for variant, (run, form, events, changed, limit) in ours.items():
        variants.append(Variant(variant, _command(run, form, events, changed)))
        if limit is None:
            continue
        memory = f", {limit.peak_mib:g} MiB" if limit.peak_mib is not None else ""
        targets[variant] = Target(f"at most {limit.seconds:g} s{memory}", _within(variant, limit.seconds))
    return Measurement(name, "s", tuple(variants), reference, targets)


def _within(variant: str, seconds: float) -> Callable[[dict[str, float]], bool]:
    return lambda medians: medians[variant] <= seconds


def _command(run: str, form: str, events: int, changed: float) -> tuple[str, ...]:
    script = str(Path(__file__).resolve())
    return (sys.executable, script, run, f"--form={form}", f"--events={events}", f"--changed={changed}")


def input_path(form: str, events: int, changed: float) -> Path:
    """An input, made in a process of its own if it is not there yet.

    Args:
        form: One of `dump_generator.FORMS`; behind colons, the analyses that the run was asked for and the form of its dumps.
        events: About how many events.
        changed: Share of the operators that have another name.
    """
    kind, *asked = form.split(":")
    folder = INPUTS / f"marked-{form}-{events}-{changed}"
    if not folder.exists():
        INPUTS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=INPUTS) as scratch:
            made = Path(scratch) / "input"
            maker = str(Path(__file__).parent / "dump_generator.py")
            options = [f"--events={events}", f"--form={kind}", f"--change={changed}"]
            options += [f"--{name}={word}" for name, word in zip(("analysis", "data-format"), asked, strict=False)]
            subprocess.run([sys.executable, maker, *options, str(made)], check=True, stdout=subprocess.DEVNULL)
            made.rename(folder)
    if kind == "event-log":
        return folder
    (file,) = folder.rglob(f"memscope_dump_*.{form}")
    return file


def run(name: str, path: Path, other: Path) -> Any:
    """Do what is measured."""
    if name == "rows":
        return read_row_by_row(path)
    if name == "database rows":
        return read_database_row_by_row(path)
    if name == "events":
        return read_event_by_event(path)
    if name == "compare":
        from msmemscope.analysis.compare.comparison import compare
        from msmemscope.formats.reading import load

        return compare(load(path), load(other))
    if name == "exit":
        from msmemscope.cli.main import main as msmemscope_command

        return msmemscope_command(["recover", str(path)])
    import msmemscope

    if name == "leaks between marks":
        return msmemscope.check_leaks(str(path), mstx_info=MARK, start_index=3, quiet=True)
    if name == "inefficient" and path.suffix in {".csv", ".db"}:
        return msmemscope.check_inefficient(str(path), quiet=True)
    return msmemscope.analyze(name, input_path=str(path), quiet=True)


def read_row_by_row(path: Path) -> int:
    """Take every row apart, as one does first: the least that any analysis of a file needs."""
    pattern = re.compile(r"(\w+):(.*?)(?=,\w+:|}$)")
    live: dict[str, int] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            attributes = dict(pattern.findall(row["Attr"]))
            if row["Event"] == "MALLOC":
                live[attributes["allocation_id"]] = int(attributes["size"])
            elif row["Event"] == "FREE":
                live.pop(attributes["allocation_id"], None)
    return len(live)


def read_database_row_by_row(path: Path) -> int:
    """The same for a database."""
    live: dict[str, int] = {}
    with closing(sqlite3.connect(path)) as connection:
        for event, text in connection.execute('SELECT "Event", "Attr" FROM memscope_dump'):
            attributes = json.loads(text or "{}")
            if event == "MALLOC":
                live[attributes["allocation_id"]] = int(attributes["size"])
            elif event == "FREE":
                live.pop(attributes["allocation_id"], None)
    return len(live)


def read_event_by_event(path: Path) -> int:
    """The same for an event log."""
    from msmemscope.formats.event_log import Capture
    from msmemscope.model.events import EventKind

    live: dict[int, int] = {}
    (directory,) = path.glob("msmemscope_*_ascend")
    for batch in Capture(directory).event_batches():
        for event in batch.iter_rows(named=True):
            if event["kind"] == EventKind.MALLOC:
                live[event["sequence"]] = event["size"]
            elif event["kind"] == EventKind.FREE:
                live.pop(event["extra"], None)
    return len(live)


def main() -> None:
    """Measure, or be one of the measured processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="fresh processes of each variant")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--form", help=argparse.SUPPRESS)
    parser.add_argument("--events", type=int, default=MILLION, help=argparse.SUPPRESS)
    parser.add_argument("--changed", type=float, default=0.0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.run:
        for make in (exit_work, analyses_of_csv, analyses_of_database, comparisons, analyses_of_event_log):
            print(table(measure(make(), arguments.repeats)), end="\n\n", flush=True)
        return
    # The call is measured, as a program makes it that has imported the library; a fresh process imports first.
    import msmemscope.analyzer
    import msmemscope.recording  # noqa: F401

    if arguments.run == "exit":  # the launcher has loaded it by the end of a program that runs for seconds
        from msmemscope.launch.load_ahead import load

        load()
    path = input_path(arguments.form, arguments.events, 0.0)
    other = input_path(arguments.form, arguments.events, arguments.changed)
    if arguments.run in {"inefficient", "exit"}:  # write their results there
        path = Path(shutil.copytree(path, "copy") if path.is_dir() else shutil.copy(path, f"copy{path.suffix}"))
    begin, begin_processor = time.perf_counter(), time.process_time()
    run(arguments.run, path, other)
    seconds, processor_seconds = time.perf_counter() - begin, time.process_time() - begin_processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"value": seconds, "processor time s": processor_seconds, "peak memory MiB": peak}))


if __name__ == "__main__":
    main()
