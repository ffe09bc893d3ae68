"""One run, read from its event log and from its dumps: every analysis of each way in, and where two of them differ."""

from __future__ import annotations

import dataclasses
import fnmatch
import os
import signal
import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.analysis.inefficient.inefficient import InefficientOptions, find_inefficient
from msmemscope.analysis.inefficient.patterns import find_memory_patterns
from msmemscope.analysis.leaks.between_marks import find_leaks_between_marks
from msmemscope.analysis.leaks.overview import find_leaks
from msmemscope.analysis.operators.memory_changes import find_memory_changes
from msmemscope.analysis.owners.decomposition import decompose
from msmemscope.analysis.peak.explanation import explain_peak
from msmemscope.analysis.peak.out_of_memory import analyze_out_of_memory
from msmemscope.analysis.watch.verdict import judge_watched_memory
from msmemscope.configuration import Level
from msmemscope.formats.reading import load
from tests.support import tool
from tests.support.targets import SOURCES, environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from msmemscope.recording import Recording

PROGRAM: Final = SOURCES / "training_with_faults.py"
MARK: Final = "range, of: steps"
"""Text of the marks of that program, where it can make any."""
OPTIONS: Final = ("--analysis=leaks,inefficient,decompose,oom", "--level=0,1", "--holder-time=0")
"""Dumps hold owners with `decompose` and failed allocations with `oom`. Holders of a block are in the event log alone,
and the time of a search decides how often holders are looked for."""
_IDLE_OPERATORS: Final = 20
_TEXT_TABLES: Final = {"python_stack_id": "python_stacks", "native_stack_id": "native_stacks"}

Results = dict[str, Any]
"""Path of a value within the results, such as `peak.devices[0].sites`, to the value: a table, or plain."""


def blocks_of(recording: Recording) -> pl.DataFrame:
    """The blocks, their stacks and attributes as texts."""
    return _with_texts(recording.blocks.drop("name_id"), recording)


def analysed(recording: Recording) -> Results:
    """Run every analysis; ids of texts, which each way in numbers anew, are replaced by the texts."""
    middle = int(recording.blocks["malloc_sequence"][len(recording.blocks) // 2])
    results: dict[str, object] = {
        "steps": recording.steps,
        "leaks": find_leaks(recording),
        "inefficient": find_inefficient(recording, InefficientOptions(idle_threshold=_IDLE_OPERATORS)),
        "patterns": find_memory_patterns(recording),
        "decompose": decompose(recording),
        "peak": explain_peak(recording),
        "middle": explain_peak(recording, at=middle),
        "oom": analyze_out_of_memory(recording),
        "operators": find_memory_changes(recording, {Level.OP}),
        "kernels": find_memory_changes(recording, {Level.KERNEL}),
        "watch": judge_watched_memory(recording),
    }
    if MARK in recording.strings["text"]:
        results["marks"] = find_leaks_between_marks(recording, MARK)
    return dict(entry for name, result in results.items() for entry in _flat(name, result, recording))


def _flat(path: str, value: object, recording: Recording) -> Iterator[tuple[str, object]]:
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _flat(f"{path}.{field.name}", getattr(value, field.name), recording)
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _flat(f"{path}.{key}", entry, recording)
    elif isinstance(value, tuple):
        yield f"{path}.count", len(value)
        for place, entry in enumerate(value):
            yield from _flat(f"{path}[{place}]", entry, recording)
    else:
        yield path, _with_texts(value, recording) if isinstance(value, pl.DataFrame) else value


def _with_texts(table: pl.DataFrame, recording: Recording) -> pl.DataFrame:
    tables = {
        **_TEXT_TABLES,
        **{f"free_{name}": texts for name, texts in _TEXT_TABLES.items()},
        "attribute_id": "strings",
    }
    for column, name in tables.items():
        if column in table.columns:
            texts = dict(getattr(recording, name).iter_rows())
            found = pl.Series(column, [texts.get(key) for key in table[column]], dtype=pl.String)
            table = table.with_columns(found)
    return table


def differences(one: Results, other: Results, expected: Sequence[str] = ()) -> list[str]:
    """Say where two results differ.

    Args:
        one: Results.
        other: Of the same analyses.
        expected: Paths that may differ, with wildcards; columns of tables stand behind a slash: `leaks.*/address`.
    """
    lines = []
    for path in sorted({*one, *other}):
        mine, others = one.get(path, "(missing)"), other.get(path, "(missing)")
        if isinstance(mine, pl.DataFrame) and isinstance(others, pl.DataFrame):
            if mine.schema != others.schema or mine.height != others.height:
                lines.append(f"{path}: {mine.shape} rows and columns, and {others.shape}")
                continue
            lines += [
                f"{path}/{column}: {_first_difference(mine[column], others[column])}"
                for column in mine.columns
                if not mine[column].equals(others[column], null_equal=True)
            ]
        elif isinstance(mine, pl.Series) and isinstance(others, pl.Series):
            if not mine.equals(others, check_dtypes=True, null_equal=True):
                lines.append(f"{path}: {mine!r} and {others!r}")
        elif type(mine) is not type(others) or mine != others:
            lines.append(f"{path}: {mine!r} and {others!r}")
    return [line for line in lines if not any(fnmatch.fnmatchcase(line.partition(": ")[0], mask) for mask in expected)]


def _first_difference(mine: pl.Series, others: pl.Series) -> str:
    differs = mine.ne_missing(others)
    place = differs.arg_max()
    assert place is not None
    return f"{differs.sum()} rows, first {place}: {mine[place]!r} and {others[place]!r}"


def run_and_be_killed(
    command: Sequence[object], output: Path, options: Sequence[str], variables: Mapping[str, str], until: str = ""
) -> Path:
    """Run a program under the tool and end both by SIGKILL, so that nobody is left to write dumps.

    Args:
        command: The command line of the program.
        output: Where the capture goes.
        options: Options of the tool.
        variables: Changes of the environment.
        until: The line of the program's output at which both are killed. Without one, the program does it itself.

    Returns:
        The capture.
    """
    words = [str(word) for word in (*tool.TOOL, f"--output={output}", *options, "--", *command)]
    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**variables),
        start_new_session=True,
        cwd=output.parent,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if until and line.strip() == until:
                os.killpg(process.pid, signal.SIGKILL)
        assert process.stderr is not None
        errors = process.stderr.read()
    assert process.returncode == -signal.SIGKILL, errors
    (capture,) = output.glob("msmemscope_*_ascend")
    assert not list(capture.glob("device_*")), "there are dumps: somebody survived"
    return capture


def dump_of(capture: Path, data_format: str, options: Sequence[str] = ()) -> Path:
    """Write dumps by `msmemscope recover`, and return the only one of a form.

    Args:
        capture: The capture.
        data_format: Which dump is returned: csv or db.
        options: Of the command.
    """
    run = tool.run([*tool.TOOL, "recover", capture, *options], output=capture.parent)
    assert run.returncode == 0, run.stderr
    (dump,) = capture.glob(f"device_*/dump/memscope_dump_*.{data_format}")
    return dump


def ways_into(capture: Path, *dumps: Path) -> dict[str, Recording]:
    """Read a run in several ways, by the form of each."""
    recordings = [load(path) for path in (capture, *dumps)]
    found = {recording.form: recording for recording in recordings}
    assert len(found) == len(recordings)
    return found
