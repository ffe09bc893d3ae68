"""Kills programs at random moments and counts what the event log lost of what they had done by then.

`python -m tests.support.kills 1000` prints the figures.
"""

from __future__ import annotations

import argparse
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from msmemscope.errors import EventLogError
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from tests.support.recordings import events_of
from tests.support.targets import Builder, environment
from tests.support.tool import TOOL

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_THREADS = 16
KEPT_EVERY, MOST_KEPT, SIZES = 97, 500, 4093
PROGRESS = np.dtype([("thread_id", "<u8"), ("allocations", "<u8"), ("frees", "<u8"), ("unused", "<u8", 5)])
"""The notes of `killed.c` about each thread."""
ROTATING = "--max-size=2MiB"
LONGEST_S = {Pool.HOST: 0.06, Pool.HAL: 0.3}
"""Latest moment of a kill after the start of the process; a few come before its first event. The driver takes longer for
an event."""
FULL_EVERY, FULL_EVENTS = 5, 400_000
"""Where the log rotates, every fifth process lives until it has so many events, however slow the machine is: its log is full."""


@dataclass
class Figures:
    """The totals of many kills."""

    kills: int = 0
    without_events: int = 0
    """Processes that were killed before their first event."""
    committed: int = 0
    """Allocations and frees that had returned when the process was killed."""
    recorded: int = 0
    """Of them in the event logs."""
    recycled: int = 0
    """Of them given up on purpose, because the log had its size."""
    lost: int = 0
    """The rest."""
    invented: int = 0
    """Events in the log that nobody had begun."""

    def __str__(self) -> str:
        """One line."""
        return (
            f"{self.kills} kills ({self.without_events} before the first event): {self.committed:,} events committed, "
            f"{self.recorded:,} recorded, {self.recycled:,} recycled, {self.lost} lost, {self.invented} invented"
        )

    def __add__(self, other: Figures) -> Figures:
        """The figures of both."""
        return Figures(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))


def kill_many(
    program: Path, count: int, *, pool: Pool, rotates: bool, variables: Mapping[str, str], seed: int = 1
) -> Figures:
    """Start the program so many times, with 1 to 16 threads, and kill each process at a random moment.

    Args:
        program: `killed.c`, compiled.
        count: The number of processes.
        pool: The pool of the program's recorded memory: HOST or HAL.
        rotates: Whether the log gives up its oldest events.
        variables: Further variables of the environment.
        seed: The seed of the random moments.
    """
    moments = random.Random(seed)  # noqa: S311 - repeatable
    figures = Figures()
    with tempfile.TemporaryDirectory() as folder:
        device = "cpu" if pool is Pool.HOST else "npu"
        observed = _environment(Path(folder), (f"--device={device}", *((ROTATING,) if rotates else ())), variables)
        for number in range(count):
            threads = moments.randint(1, MOST_THREADS)
            output = Path(folder) / "output"
            fewest = FULL_EVENTS if rotates and number % FULL_EVERY == 0 else 0
            seconds = moments.uniform(0, LONGEST_S[pool])
            progress = _kill_one([str(program)], threads, (fewest, seconds), Path(folder), observed)
            figures += _compare(progress, output, pool)
            shutil.rmtree(output, ignore_errors=True)
    return figures


def _environment(folder: Path, options: tuple[str, ...], variables: Mapping[str, str]) -> dict[str, str]:
    """The environment in which every program is observed."""
    base = environment(**variables)
    command = [*TOOL, "env", "--", f"--output={folder / 'output'}", "--events=alloc,free", "--call-stack=", *options]
    lines = subprocess.run(command, env=base, capture_output=True, text=True, check=True).stdout
    words = [word for word in shlex.split(lines) if "=" in word]
    return base | dict(word.split("=", 1) for word in words)


def _kill_one(
    command: list[str], threads: int, after: tuple[int, float], folder: Path, variables: Mapping[str, str]
) -> np.ndarray:
    """The work of the threads when the process was killed: after so many events, and so many seconds."""
    events, seconds = after
    file = folder / "progress"
    file.write_bytes(bytes(MOST_THREADS * PROGRESS.itemsize))
    process = subprocess.Popen([*command, str(file), str(threads)], env=dict(variables), stdout=subprocess.DEVNULL)
    while _events_noted(file) < events and process.poll() is None:
        time.sleep(0.01)
    time.sleep(seconds)
    process.kill()
    assert process.wait(timeout=60) == -signal.SIGKILL, "the program ended by itself"
    progress: np.ndarray = np.fromfile(file, dtype=PROGRESS)
    begun: np.ndarray = progress[progress["thread_id"] != 0]
    return begun


def _events_noted(file: Path) -> int:
    progress: np.ndarray = np.fromfile(file, dtype=PROGRESS)
    return int(progress["allocations"].sum() + progress["frees"].sum())


def _compare(progress: np.ndarray, output: Path, pool: Pool) -> Figures:
    """Compare a capture with what the threads noted."""
    from msmemscope.formats.event_log import Capture

    figures = Figures(kills=1, committed=int(progress["allocations"].sum() + progress["frees"].sum()))
    try:
        captures = [Capture(directory) for directory in output.glob("msmemscope_*")]
        has_events = bool(captures and captures[0].event_count())
    except EventLogError:  # killed while its folder, or the log in it, was made
        has_events = False
    if not has_events:
        figures.without_events = 1
        figures.lost = figures.committed
        return figures
    (capture,) = captures
    everything = events_of(capture)
    events = everything.filter(
        pl.col("kind").is_in([int(EventKind.MALLOC), int(EventKind.FREE)]) & (pl.col("pool") == int(pool))
    ).select("thread_id", "size", is_free=pl.col("kind") == int(EventKind.FREE))
    by_thread = {key[0]: rows for key, rows in events.partition_by("thread_id", as_dict=True).items()}
    is_rotating = capture.header.maximum_log_bytes > 0
    for one in progress:
        rows = by_thread.pop(int(one["thread_id"]), events.clear())
        figures += _compare_thread(one, rows["size"].to_numpy(), rows["is_free"].to_numpy(), is_rotating=is_rotating)
    figures.invented += sum(rows.height for rows in by_thread.values())
    if is_rotating:
        # Work of the threads that the log does not have was counted before it was removed.
        figures.lost += max(figures.recycled - capture.header.dropped_recycled, 0)
    return figures


def _expected(allocations: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sizes, whether it is a FREE, and whether the block stays: of the events of so many allocations and their frees."""
    numbers = np.arange(allocations)
    is_kept = (numbers % KEPT_EVERY == 0) & (numbers // KEPT_EVERY < MOST_KEPT)
    repeated = np.repeat(numbers, np.where(is_kept, 1, 2))
    is_free = np.zeros(repeated.size, dtype=bool)
    is_free[1:] = repeated[1:] == repeated[:-1]
    return 64 * (1 + repeated % SIZES), is_free, is_kept[repeated]


def _compare_thread(one: np.void, sizes: np.ndarray, is_free: np.ndarray, *, is_rotating: bool) -> Figures:
    """Compare the events of one thread: what is there must be the end of what it did, and blocks that it keeps."""
    committed = int(one["allocations"] + one["frees"])
    # It may have come one event further than it had time to note.
    all_sizes, all_free, all_kept = _expected(int(one["allocations"]) + 1)
    all_sizes, all_free, all_kept = all_sizes[: committed + 1], all_free[: committed + 1], all_kept[: committed + 1]
    best = Figures(lost=committed + 1, invented=sizes.size)
    compare = _compare_end if is_rotating else _compare_begin
    for done in (committed + 1, committed):
        found = compare(sizes, is_free, all_sizes[:done], all_free[:done], all_kept[:done])
        if found is None:
            continue
        found.recorded = min(found.recorded, committed)
        missing = committed - found.recorded
        found.lost, found.recycled = (0, missing) if is_rotating else (missing, 0)
        if (found.lost, found.invented, found.recycled) < (best.lost, best.invented, best.recycled):
            best = found
    return best


def _compare_begin(
    sizes: np.ndarray, is_free: np.ndarray, all_sizes: np.ndarray, all_free: np.ndarray, _all_kept: np.ndarray
) -> Figures | None:
    """Compare what a log has of a thread: everything from its first event on. None if it is something else."""
    length = min(sizes.size, all_sizes.size)
    is_same = np.array_equal(sizes[:length], all_sizes[:length]) and np.array_equal(is_free[:length], all_free[:length])
    return Figures(recorded=length, invented=sizes.size - length) if is_same else None


def _compare_end(
    sizes: np.ndarray, is_free: np.ndarray, all_sizes: np.ndarray, all_free: np.ndarray, all_kept: np.ndarray
) -> Figures | None:
    """Compare what a rotating log has of a thread: the last events without a gap, and before them blocks that it keeps."""
    length = min(sizes.size, all_sizes.size)
    same = (sizes[sizes.size - length :] == all_sizes[all_sizes.size - length :]) & (
        is_free[sizes.size - length :] == all_free[all_free.size - length :]
    )
    differing = np.flatnonzero(~same)
    end = length - (int(differing[-1]) + 1 if differing.size else 0)
    rest, rest_free = sizes[: sizes.size - end], is_free[: sizes.size - end]
    kept = all_sizes[: all_sizes.size - end][all_kept[: all_sizes.size - end]]
    is_same = not rest_free.any() and np.array_equal(rest, kept)
    return Figures(recorded=end + rest.size) if is_same else None


def build_for_cpu(builder: Builder) -> Path:
    """Compile the program with the stand-in for libc10."""
    library = builder.library()
    return builder.part(
        "killed.c", "killed", "-pie", f"-L{library.parent}", "-l:libc10.so", f"-Wl,-rpath,{library.parent}"
    )


def build_for_npu(builder: Builder, cann_environment: Mapping[str, str]) -> Path:
    """Compile the program with the emulated driver."""
    folder = f"{cann_environment['ASCEND_HOME_PATH']}/lib64"
    return builder.part(
        "killed.c", "killed", "-pie", "-DNPU", f"-L{folder}", "-lascend_hal", f"-Wl,-rpath-link,{folder}"
    )


def main() -> int:
    """Print the figures of many kills."""
    from tests.support.ascend import virtual_npu_environment

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "count", type=int, help="kills in all, in four equal parts: CPU and NPU, with rotation or without"
    )
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    npu = virtual_npu_environment(with_torch=False)
    total = Figures()
    with tempfile.TemporaryDirectory() as cache:
        builder = Builder(Path(cache))
        programs: tuple[tuple[Pool, Path, Mapping[str, str]], ...] = (
            (Pool.HOST, build_for_cpu(builder), {}),
            (Pool.HAL, build_for_npu(builder, npu), npu),
        )
        for pool, program, variables in programs:
            for rotates in (False, True):
                figures = kill_many(
                    program, arguments.count // 4, pool=pool, rotates=rotates, variables=variables, seed=arguments.seed
                )
                sys.stdout.write(f"{pool.name}{', rotating' if rotates else ''}: {figures}\n")
                sys.stdout.flush()
                total += figures
    sys.stdout.write(f"all: {total}\n")
    return 0 if total.lost == total.invented == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
