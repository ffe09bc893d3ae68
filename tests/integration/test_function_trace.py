"""The Python function trace: every call, once, with times that nest, in every thread."""

from __future__ import annotations

import json
import os
import sqlite3
from typing import TYPE_CHECKING

import polars as pl
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from msmemscope.formats.event_log import Capture
    from tests.conftest import RunUnderTool
    from tests.support.tool import ToolRun

COMES_AND_GOES = """
for number in range(600):
    names = {}
    exec(compile(f"def function_{number}(): return {number}", f"file_{number}.py", "exec"), names)
    for _ in range(number % 3 + 1):
        assert names[f"function_{number}"]() == number
"""

FORKS = """
import os, sys
def before(): pass
def both(): pass
def in_child(): pass
before()
both()
child = os.fork()
if child == 0:
    for _ in range(7): in_child()
    both()
    sys.exit(0)
os.waitpid(child, 0)
both()
print(child)
"""

TELLS_THE_TIME = """
import time
def told():
    return time.time_ns()
print(*(told() for _ in range(20000)))
"""


def traced(run: ToolRun, capture: Capture | None = None) -> pl.DataFrame:
    """All rows of the trace of a process, by default of the only one, with the function's name and times as numbers."""
    directory = (capture or run.capture).directory
    files = sorted(directory.glob("device_cpu/dump/python_trace_*.csv"))
    for file in files:
        thread = file.name.removeprefix("python_trace_").partition("_")[0]
        assert set(pl.read_csv(file, infer_schema=False)["Thread Id"]) == {thread}
    rows = pl.concat([pl.read_csv(file, infer_schema=False) for file in files])
    return rows.with_columns(
        name=pl.col("FuncInfo").str.extract(r"\): (.*)$"),
        start=pl.col("StartTime(ns)").cast(pl.Int64, strict=False),
        end=pl.col("EndTime(ns)").cast(pl.Int64, strict=False),
    )


def test_every_call_has_its_row(python_target: Callable[..., list[str | Path]], run_under_tool: RunUnderTool) -> None:
    """As often as the functions counted themselves; builtins by their name; three threads beside the main one."""
    run = run_under_tool(python_target("function_calls"), "--events=traceback")
    assert run.returncode == 0, run.stderr
    rows = traced(run)
    expected = json.loads(run.stdout)
    own = rows.filter(pl.col("FuncInfo").str.contains("function_calls.py", literal=True))
    found = dict(own.group_by("name").len().iter_rows())
    assert {name: found[name] for name in expected} == expected
    assert found["main"] == 1
    assert rows.filter(pl.col("FuncInfo") == "<built-in function abs>").height == expected["leaf"]
    assert rows["Thread Id"].n_unique() == 4
    assert set(rows["Process Id"]) == {str(run.capture.header.process_id)}
    assert run.capture.header.process_id != os.getpid()


def test_times_nest(python_target: Callable[..., list[str | Path]], run_under_tool: RunUnderTool) -> None:
    """A call ends after it begins, and lies within the call that made it."""
    run = run_under_tool(python_target("function_calls"), "--events=traceback")
    rows = traced(run).filter(pl.col("start").is_not_null() & pl.col("end").is_not_null())
    assert (rows["end"] >= rows["start"]).all()
    for _, thread in rows.group_by("Thread Id"):
        open_ends: list[int] = []
        for start, end in thread.sort(["start", "end"], descending=[False, True]).select("start", "end").iter_rows():
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]
            open_ends.append(end)


def test_calls_open_at_the_end_are_told(
    python_target: Callable[..., list[str | Path]], run_under_tool: RunUnderTool
) -> None:
    """Calls that run when the interpreter ends have no end, and say so."""
    code = "import atexit, sys\ndef outer():\n    sys.exit(3)\nouter()\n"
    run = run_under_tool([python_target("function_calls")[0], "-c", code], "--events=traceback")
    assert run.returncode == 3
    rows = traced(run)
    assert rows.filter(pl.col("name") == "outer").height == 1
    unfinished = rows.filter(pl.col("end").is_null())
    assert unfinished["FuncInfo"].str.starts_with("stop: ").all()
    assert (unfinished["EndTime(ns)"] == "N/A").all()


def test_another_profiler_is_left_alone(
    python_target: Callable[..., list[str | Path]], run_under_tool: RunUnderTool
) -> None:
    """A program that profiles itself gets its own profile, and the trace does not come back into it."""
    code = (
        "import cProfile, pstats\np = cProfile.Profile()\np.runcall(sum, [1])\nprint(pstats.Stats(p).total_calls > 0)"
    )
    run = run_under_tool([python_target("function_calls")[0], "-c", code], "--events=traceback")
    assert run.returncode == 0, run.stderr
    assert run.stdout == "True\n"


@pytest.mark.parametrize("data_format", ["csv", "db"])
def test_the_trace_is_in_either_format(
    python_target: Callable[..., list[str | Path]], run_under_tool: RunUnderTool, data_format: str
) -> None:
    """A file per thread, or a table per process beside the dump."""
    run = run_under_tool(python_target("function_calls"), "--events=traceback", f"--data-format={data_format}")
    folder = run.capture.directory / "device_cpu" / "dump"
    if data_format == "csv":
        assert len(list(folder.glob("python_trace_*.csv"))) == 4
        return
    (database,) = folder.glob("memscope_dump_*.db")
    with sqlite3.connect(database) as connection:
        (rows,) = connection.execute(f"SELECT COUNT(*) FROM python_trace_{run.capture.header.process_id}").fetchone()
    connection.close()
    assert rows > 500


def test_functions_that_come_and_go_keep_their_names(
    python_target: Callable[..., list[str | Path]], run_under_tool: RunUnderTool
) -> None:
    """The code of a new function often lies where that of an old one was."""
    run = run_under_tool([python_target("function_calls")[0], "-c", COMES_AND_GOES], "--events=traceback")
    assert run.returncode == 0, run.stderr
    rows = traced(run).filter(pl.col("name").str.starts_with("function_"))
    found = dict(rows.group_by("name").len().iter_rows())
    assert found == {f"function_{number}": number % 3 + 1 for number in range(600)}
    number = rows["name"].str.strip_prefix("function_")
    assert rows["FuncInfo"].str.starts_with("file_" + number + ".py(").all()


def test_a_forked_child_has_its_own_calls(
    python_target: Callable[..., list[str | Path]], run_under_tool: RunUnderTool
) -> None:
    """Not those of its parent, from its first one on, and by their names."""
    run = run_under_tool([python_target("function_calls")[0], "-c", FORKS], "--events=traceback")
    assert run.returncode == 0, run.stderr
    child = int(run.stdout)
    counted = []
    for capture in run.captures:
        names = dict(traced(run, capture).group_by("name").len().iter_rows())
        own = {name: names[name] for name in ("before", "both", "in_child") if name in names}
        counted.append((capture.header.process_id == child, own))
    assert sorted(counted) == [(False, {"before": 1, "both": 2}), (True, {"both": 1, "in_child": 7})]


def test_calls_are_when_the_program_says(
    python_target: Callable[..., list[str | Path]], run_under_tool: RunUnderTool
) -> None:
    """Within what two readings of a clock may be apart, the time lies within the call that asked for it."""
    run = run_under_tool([python_target("function_calls")[0], "-c", TELLS_THE_TIME], "--events=traceback")
    assert run.returncode == 0, run.stderr
    rows = traced(run).filter(pl.col("name") == "told").sort("start")
    told = pl.Series("told", map(int, run.stdout.split()), pl.Int64)
    apart_ns = 100_000
    assert rows.height == len(told)
    assert (rows["start"] - apart_ns <= told).all()
    assert (told <= rows["end"] + apart_ns).all()
