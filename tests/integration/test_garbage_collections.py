"""Blocks that the garbage collector frees when it begins by itself are marked; those that a program collects are not."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

import polars as pl
import pytest

from msmemscope.formats.reading import load
from msmemscope.model.events import EventFlag, EventKind
from tests.support import tool
from tests.support.nightly import nightly

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]

TRIALS: Final = """
import gc, sys, torch

class Trial:
    def __init__(self):
        self.weights = torch.zeros(1 << 20)  # line 6
        self.itself = self

def many_objects():
    return [[] for _ in range(300_000)]

many_objects()
gc.collect()
gc.freeze()  # so that the collector begins soon
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if sys.argv[1] == "off":
    gc.set_threshold(0)
for number in range(40):
    trial = Trial()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    if sys.argv[1] in ("asked", "off"):
        del trial
        gc.collect()
    elif number == 19:
        del trial
        many_objects()
"""


def _run(folder: Path, how: str) -> tool.ToolRun:
    program, output = folder / "trials.py", folder / "out"
    program.write_text(TRIALS)
    run = tool.run([*tool.TOOL, f"--output={output}", "--", sys.executable, program, how], output=output)
    assert run.returncode == 0, run.stderr
    return run


def _collected(run: tool.ToolRun) -> pl.DataFrame:
    recording = load(run.capture.directory)
    freed = recording.events.filter(kind=int(EventKind.FREE)).filter((pl.col("flags") & int(EventFlag.COLLECTED)) != 0)
    return recording.blocks.join(freed.select(malloc_sequence="extra"), on="malloc_sequence")


def test_what_the_collector_frees_by_itself_is_marked(tmp_path: Path) -> None:
    """The first twenty trials; the others stay to the end. The cycle is named."""
    run = _run(tmp_path, "by itself")
    blocks = _collected(run)
    assert blocks.height == 20
    assert set(blocks["size"]) == {4 << 20}
    assert re.search(r"leak: \S+ MiB .* in a reference cycle through Trial\.itself", " ".join(run.stderr.split())), (
        run.stderr
    )


@pytest.mark.parametrize("how", ["asked", pytest.param("off", marks=nightly)])
def test_what_a_program_collects_is_not_marked(how: str, tmp_path: Path) -> None:
    """Also where the collector has no threshold, so that it never begins by itself."""
    run = _run(tmp_path, how)
    assert _collected(run).is_empty()
    assert "nothing found: no leak over 40 steps" in " ".join(run.stderr.split())


ENDS_WITHIN: Final = """
import gc, sys, torch
import msmemscope

class Callback:
    def __call__(self, phase, facts):
        pass

    def __eq__(self, other):
        raise AssertionError("compared")

gc.callbacks.insert(0, Callback())

class Ends:
    def __init__(self):
        self.itself = self

    def __del__(self):
        msmemscope.stop()
        msmemscope.start()

Ends()
many = [[] for _ in range(300_000)]
for _ in range(10):
    torch.zeros(1 << 20)
msmemscope.stop()
assert [type(one).__name__ for one in gc.callbacks] == ["Callback"]
"""


def test_collection_of_events_may_end_while_the_collector_works(tmp_path: Path) -> None:
    """The collector has made none of the frees behind that end. Callbacks of the program stay, and are not compared."""
    program, output = tmp_path / "ends.py", tmp_path / "out"
    program.write_text(ENDS_WITHIN)
    run = tool.run([*tool.TOOL, f"--output={output}", "--", sys.executable, program], output=output)
    assert run.returncode == 0, run.stderr
    assert _collected(run).is_empty()
