"""Answers about jobs: seconds to sum a capture up, bytes per rank, and seconds for an answer of ten thousand summaries.

Run by itself it prints its tables: `python benchmarks/cluster_speed.py [--repeats N] [--events N] [--ranks N]`. Each
sample is a fresh process with one thread for tables, as workers have. The summaries of a job are made from the real one
of a capture. Their ranks, places and peaks differ, and every hundredth holds 1 GiB more.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from analysis_speed import MILLION, input_path
from measuring import Measurement, Target, Variant, measure, table

if TYPE_CHECKING:
    import polars as pl

RANKS: Final = 10_000
READ, SUMMARY, MERGE, ANSWER = "read alone", "summary of a rank", "merge", "merge and answer"
MOST_SECONDS: Final = 60
MOST_MEBIBYTES: Final = 2048


def _variant(name: str, events: int, ranks: int) -> Variant:
    command = (sys.executable, str(Path(__file__).resolve()), f"--events={events}", f"--ranks={ranks}", f"--run={name}")
    return Variant(name, command)


def summary_speed(events: int = MILLION) -> Measurement:
    """Seconds for one capture, on one core; `captures per second and core` is among the further figures."""
    return Measurement(
        name=f"summary of a rank with {events:,} events",
        unit="s",
        reference=READ,
        variants=tuple(_variant(name, events, RANKS) for name in (READ, SUMMARY)),
    )


def answer_speed(ranks: int = RANKS, events: int = MILLION) -> Measurement:
    """Seconds from summaries, as they travel, to the JSON of the answer."""
    return Measurement(
        name=f"answer about {ranks:,} ranks",
        unit="s",
        reference=MERGE,
        variants=tuple(_variant(name, events, ranks) for name in (MERGE, ANSWER)),
        targets={ANSWER: Target(f"at most {MOST_SECONDS} s", lambda medians: medians[ANSWER] <= MOST_SECONDS)},
    )


def job_of(summary: pl.DataFrame, ranks: int) -> list[bytes]:
    """Summaries of a job of this many ranks, as they travel."""
    import polars as pl

    from msmemscope.cluster.summary import packed

    made = []
    for rank in range(ranks):
        surplus = (rank % 7 << 20) + (1 << 30 if rank % 100 == 99 else 0)
        places = [
            {"axis": "data", "index": rank // 16},
            {"axis": "pipeline", "index": rank // 2 % 8},
            {"axis": "tensor", "index": rank % 2},
        ]
        row = summary.with_columns(
            pl.lit(rank, dtype=pl.Int64).alias("rank"),
            pl.lit(f"node{rank // 8}").alias("node"),
            pl.lit(f"/job/{rank}").alias("source"),
            pl.col("peak_bytes") + surplus,
            pl.col("used_bytes") + surplus,
            coordinates=pl.Series([places], dtype=summary.schema["coordinates"]),
        )
        made.append(packed(row))
    return made


def main() -> None:
    """Measure, or be one of the measured processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="fresh processes of each variant")
    parser.add_argument("--events", type=int, default=MILLION)
    parser.add_argument("--ranks", type=int, default=RANKS)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.run:
        for one in (summary_speed(arguments.events), answer_speed(arguments.ranks, arguments.events)):
            print(table(measure(one, arguments.repeats)))
        return
    os.environ["POLARS_MAX_THREADS"] = "1"
    from msmemscope.cluster.answer.job_answer import answer_of
    from msmemscope.cluster.answer_json import answer_content
    from msmemscope.cluster.capture_task import CaptureOutcome, TaskOptions, summarise_capture
    from msmemscope.cluster.job_summaries import merge_outcomes
    from msmemscope.cluster.summary import summaries_of
    from msmemscope.formats.reading import load_all

    (log,) = input_path("event-log", arguments.events, 0.0).glob("msmemscope_*_ascend")
    figures: dict[str, float] = {}
    if arguments.run in {READ, SUMMARY}:
        begin, begin_processor = time.perf_counter(), time.process_time()
        if arguments.run == READ:
            load_all(log)
        else:
            figures["bytes per rank"] = len(summarise_capture(str(log), TaskOptions(cache=None)).content)
        seconds, processor = time.perf_counter() - begin, time.process_time() - begin_processor
        figures["captures per second and core"] = 1 / processor
    else:
        known = summaries_of([(str(log), summarise_capture(str(log), TaskOptions(cache=None)).content)])
        contents = job_of(known, arguments.ranks)
        begin, begin_processor = time.perf_counter(), time.process_time()
        outcomes = (CaptureOutcome(f"/job/{rank}", content) for rank, content in enumerate(contents))
        part = merge_outcomes(outcomes, table=None, done=lambda: None)
        if arguments.run == ANSWER:
            figures["MiB of JSON"] = len(json.dumps(answer_content(answer_of(part)))) / (1 << 20)
        seconds, processor = time.perf_counter() - begin, time.process_time() - begin_processor
    figures["processor time s"] = processor
    figures["peak memory MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if arguments.run == ANSWER and figures["peak memory MiB"] > MOST_MEBIBYTES:
        message = f"an answer about {arguments.ranks:,} ranks takes {figures['peak memory MiB']:.0f} MiB"
        raise SystemExit(message)
    print(json.dumps({"value": seconds, **figures}))


if __name__ == "__main__":
    main()
