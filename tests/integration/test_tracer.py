"""The tracer and RecordFunction in programs: with and without the session, under the launcher, and together."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.support import tool
from tests.support.nightly import NIGHT, nightly

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.conftest import RunUnderTool

FUNCTIONS = """
import sys, threading
import msmemscope

def leaf(number):
    return abs(number)

def work(count):
    for number in range(count):
        leaf(number)

def in_thread(count):
    thread = threading.Thread(target=work, args=(count,))
    thread.start()
    thread.join()
"""


def run_program(tmp_path: Path, body: str) -> tool.ToolRun:
    """Run a program that has the functions above, without the launcher."""
    program = tmp_path / "program.py"
    program.write_text(FUNCTIONS + f"msmemscope.config(device='cpu', output={str(tmp_path / 'output')!r})\n" + body)
    return tool.run([sys.executable, program], output=tmp_path / "output")


def trace_of(run: tool.ToolRun) -> pl.DataFrame:
    """All rows of the trace, those of a thread in the file of its name."""
    assert run.returncode == 0, run.stderr
    files = sorted(run.output.glob("msmemscope_*/device_cpu/dump/python_trace_*.csv"))
    parts = []
    for file in files:
        rows = pl.read_csv(file, infer_schema=False)
        assert set(rows["Thread Id"]) == {file.name.removeprefix("python_trace_").partition("_")[0]}
        parts.append(rows)
    columns = ["FuncInfo", "StartTime(ns)", "EndTime(ns)", "Thread Id", "Process Id"]
    rows = pl.concat([pl.DataFrame(schema=dict.fromkeys(columns, pl.String)), *parts])
    return rows.with_columns(function=pl.col("FuncInfo").str.extract(r"program\.py\(\d+\): (.*)$"))


def calls(trace: pl.DataFrame, function: str) -> int:
    """How many rows a function of the program has."""
    return trace.filter(pl.col("function") == function).height


WITHOUT_A_SESSION = """
def again(number):
    return abs(number)

def last(number):
    return abs(number)

work(1)
msmemscope.tracer.start()
work(3)
in_thread(2)
msmemscope.tracer.stop()
work(1)

t = msmemscope.tracer
t.stop()
t.start()
t.start()
again(1)
again(2)
t.stop()
t.stop()
again(3)

msmemscope.tracer.start()
last(1)
last(2)
"""


@pytest.fixture(scope="module")
def without_a_session(tmp_path_factory: pytest.TempPathFactory) -> tuple[tool.ToolRun, pl.DataFrame]:
    """A program that switches the tracer alone, and its trace."""
    run = run_program(tmp_path_factory.mktemp("alone"), WITHOUT_A_SESSION)
    return run, trace_of(run)


def test_the_tracer_needs_no_start(without_a_session: tuple[tool.ToolRun, pl.DataFrame]) -> None:
    """Only what runs between start and stop, in every thread; one file per thread; no memory events."""
    run, trace = without_a_session
    assert (calls(trace, "work"), calls(trace, "leaf")) == (2, 5)
    assert trace.filter(pl.col("function") == "leaf")["Thread Id"].n_unique() == 2
    dumps = list(run.output.glob("msmemscope_*/device_*/dump/memscope_dump_*"))
    assert not dumps, "nothing but the trace was asked for"


def test_switching_twice_says_one_line_and_goes_on(without_a_session: tuple[tool.ToolRun, pl.DataFrame]) -> None:
    """Each mistake is one line; the trace is as if it had not been made."""
    run, trace = without_a_session
    assert calls(trace, "again") == 2
    printed = [line for line in run.stderr.splitlines() if line.startswith("msmemscope: tracer")]
    assert printed == [
        "msmemscope: tracer.stop(): the tracer is not on",
        "msmemscope: tracer.start(): the tracer is on already",
        "msmemscope: tracer.stop(): the tracer is not on",
    ]


def test_a_tracer_that_is_on_at_the_end_is_written(without_a_session: tuple[tool.ToolRun, pl.DataFrame]) -> None:
    """Nobody has to stop it."""
    _, trace = without_a_session
    assert calls(trace, "last") == 2


def test_our_own_functions_are_not_traced(tmp_path: Path) -> None:
    """Neither those that switch the trace nor those that wrap the program's, though what they call is."""
    body = """
@msmemscope.RecordFunction("named")
def wrapped():
    leaf(1)

msmemscope.tracer.start()
wrapped()
with msmemscope.RecordFunction("block"):
    leaf(2)
msmemscope.tracer.stop()
"""
    trace = trace_of(run_program(tmp_path, body))
    names = trace["FuncInfo"].to_list()
    assert not [name for name in names if "/msmemscope/" in name]
    assert not [name for name in names if name.startswith("<built-in") and "abs" not in name], names
    assert [name for name in names if name in {"named", "block"}] == ["named", "block"]
    assert (calls(trace, "wrapped"), calls(trace, "leaf")) == (1, 2)


SHARED = [
    # Numbers are how often leaf is called at each place.
    ("START work(1) T.start() work(2) STOP work(4) T.stop() work(8)", 1 + 2 + 4),
    ("T.start() work(1) START work(2) T.stop() work(4) STOP work(8)", 1 + 2 + 4),
    ("START work(1) T.start() work(2) T.stop() work(4) STOP work(8)", 1 + 2 + 4),
    ("T.start() work(1) START work(2) STOP work(4) T.stop() work(8)", 1 + 2 + 4),
    ("START work(1) STOP work(2) T.start() work(4) T.stop() work(8)", 1 + 4),
]


def leaf_calls(folder: Path, numbers: Sequence[int]) -> list[int]:
    """Run some of the above in one program, each with functions of its own; return how many rows each leaf has."""
    body = "msmemscope.config(device='cpu', events='traceback')\nT = msmemscope.tracer\n"
    for number in numbers:
        body += f"def leaf_{number}(value):\n    return abs(value)\n"
        body += f"def work(count):\n    for value in range(count):\n        leaf_{number}(value)\n"
        body += (
            SHARED[number][0]
            .replace(" ", "\n")
            .replace("START", "msmemscope.start()")
            .replace("STOP", "msmemscope.stop()")
        )
        body += "\n"
    trace = trace_of(run_program(folder, body))
    return [calls(trace, f"leaf_{number}") for number in numbers]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    """The rows of each, by day of one program after the other in one process, at night each in a process of its own."""
    programs = [[number] for number in range(len(SHARED))] if NIGHT else [list(range(len(SHARED)))]
    return [count for numbers in programs for count in leaf_calls(tmp_path_factory.mktemp("shared"), numbers)]


@pytest.mark.parametrize("number", range(len(SHARED)), ids=[switches for switches, _ in SHARED])
def test_the_tracer_and_the_session_share_one_trace(shared: list[int], number: int) -> None:
    """Each call has one row, while any of the two wants it; neither ends the other's."""
    assert shared[number] == SHARED[number][1]


def test_the_tracer_traces_steps_that_are_not_collected(tmp_path: Path) -> None:
    """A choice of steps holds for the session; a call that is open when the tracer ends has no end."""
    body = """
msmemscope.config(device='cpu', events='alloc,free,traceback', steps='2')
def outer():
    leaf(1)
    msmemscope.tracer.stop()
    leaf(2)
msmemscope.start()
work(1)
msmemscope.tracer.start()
outer()
msmemscope.step()
work(3)
msmemscope.stop()
"""
    trace = trace_of(run_program(tmp_path, body))
    assert calls(trace, "leaf") == 1 + 3
    (outer,) = trace.filter(pl.col("function") == "outer").rows(named=True)
    assert outer["EndTime(ns)"] == "N/A"
    assert outer["FuncInfo"].startswith("stop: ")


@nightly  # by day test_python_programs.py looks for them in a trace that the launcher begins before torch is imported
def test_modules_of_a_torch_that_comes_later_have_their_names(tmp_path: Path) -> None:
    """The trace begins before torch is imported, as it does under the launcher."""
    pytest.importorskip("torch")
    body = (
        "msmemscope.tracer.start()\nimport torch\ntorch.nn.Linear(2, 2)(torch.ones(1, 2))\nmsmemscope.tracer.stop()\n"
    )
    names = trace_of(run_program(tmp_path, body))["FuncInfo"]
    assert (names == "nn.Module: Linear").sum() == 1


MARKS = """
with msmemscope.RecordFunction("before"):
    pass
msmemscope.start()
with msmemscope.RecordFunction("during"):
    pass
msmemscope.stop()
with msmemscope.RecordFunction("after"):
    pass
msmemscope.start()
with msmemscope.RecordFunction("again"):
    pass
"""


def test_record_function_needs_no_start_but_respects_stop(tmp_path: Path) -> None:
    """As the sample of the documents: without start() it is recorded; after stop() it is not."""
    names = trace_of(run_program(tmp_path, MARKS))["FuncInfo"].to_list()
    assert names == ["before", "during", "again"]


def test_record_function_waits_where_collection_is_deferred(tmp_path: Path, run_under_tool: RunUnderTool) -> None:
    """Under --collect-mode=deferred nothing is recorded before start()."""
    program = tmp_path / "program.py"
    program.write_text(FUNCTIONS + MARKS)
    run = run_under_tool([sys.executable, program], "--collect-mode=deferred")
    assert trace_of(run)["FuncInfo"].to_list() == ["during", "again"]


def test_record_function_is_cheap(tmp_path: Path) -> None:
    """A loose bound that holds on any machine: 20 µs per use while it is recorded."""
    body = """
import time
msmemscope.start()
begin = time.perf_counter_ns()
for _ in range(20000):
    with msmemscope.RecordFunction("block"):
        pass
print(f"each_ns={(time.perf_counter_ns() - begin) // 20000}")
"""
    run = run_program(tmp_path, body)
    assert trace_of(run).height == 20000
    assert int(run.report["each_ns"]) < 20_000
