"""Threads that run operators at the same time, without the GIL: every operator is recorded once, with what it touched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.model.events import EventKind
from tests.support.recordings import events_of
from tests.support.warm import run_observed

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]

THREADS, ROUNDS = 4, 400
FUNCTIONS = ("sin", "cos", "exp", "tanh", "sqrt", "sigmoid", "floor", "ceil", "erf", "log1p", "neg", "abs")

PROGRAM = f"""
import threading
import torch
torch.set_num_threads(1)
barrier = threading.Barrier({THREADS})

def work(number):
    tensors = [torch.ones(8 * number + size + 1) for size in range(8)]
    barrier.wait()  # the first call of each function is one of several threads at once
    for round in range({ROUNDS}):
        for name in {FUNCTIONS!r}:
            getattr(torch, name)(tensors[round % 8])

threads = [threading.Thread(target=work, args=(number,)) for number in range({THREADS})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_none_is_lost_and_none_is_mixed_up(tmp_path: Path) -> None:
    """In each thread: start, one read, one block, one write, end, with the shape of the thread's own tensors."""
    run = run_observed(["-c", PROGRAM], "--events=alloc,free,launch,access", output=tmp_path / "output")
    assert run.returncode == 0, run.stderr
    (capture,) = run.captures
    events = events_of(capture)
    names = dict(capture.string_frame(events["name_id"]).iter_rows())
    of_functions = {number for number, name in names.items() if name.rpartition(".")[0].rpartition(".")[2] in FUNCTIONS}
    chosen = events.filter(pl.col("name_id").is_in(list(of_functions)))
    kinds = [EventKind.ATEN_START, EventKind.ACCESS_READ, EventKind.MALLOC, EventKind.ACCESS_WRITE, EventKind.ATEN_END]
    threads = chosen.partition_by("thread_id", maintain_order=True)
    assert len(threads) == THREADS
    sizes = set()
    for thread in threads:
        calls = ROUNDS * len(FUNCTIONS)
        assert thread["kind"].to_list() == [int(kind) for kind in kinds] * calls
        called = thread["name_id"].gather_every(len(kinds)).to_list()
        assert [names[number].split(".")[-2] for number in called] == [*FUNCTIONS] * ROUNDS
        assert thread["name_id"].to_list() == [number for number in called for _ in kinds]
        read, written = (thread["size"].gather_every(len(kinds), offset) for offset in (1, 3))
        assert read.equals(written)
        (smallest,) = {size - 4 * (place // len(FUNCTIONS) % 8) for place, size in enumerate(read.to_list())}
        sizes.add(smallest)
    assert sizes == {4 * (8 * number + 1) for number in range(THREADS)}
