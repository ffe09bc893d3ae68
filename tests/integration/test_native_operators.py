"""Operators are recorded as the mode in Python records them, whichever way they go.

Most never come to Python; the others are dispatched in native code, from objects of Python.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from msmemscope.model.events import EventKind
from tests.support.forked import run_forked
from tests.support.nightly import NIGHT, nightly
from tests.support.operator_rows import (
    DISPATCHED,
    IN_PYTHON,
    KINDS,
    NATIVE,
    OPTIONS,
    first_difference,
    rows_by_thread,
    sizes_freed,
)
from tests.support.targets import SOURCES
from tests.support.warm import run_python

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.tool import ToolRun

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def _listed(file: str, decorator: str) -> list[tuple[str, str]]:
    text = (SOURCES / f"{file}.py").read_text(encoding="utf-8")
    return [(file, name) for name in re.findall(rf"@{decorator}\ndef (\w+)", text)]


PROGRAMS = [*_listed("operator_calls", "way"), *_listed("torch_features", "feature")]

_AT_NIGHT = {"flex_attention", "exported"}
"""Programs that import much: by day higher_order_operator and compiled are what is dispatched in these ways."""

_BY_SEVERAL_THREADS = {"data_parallel_training", "threads_with_operators", "distributed_tensor", "nested_lists"}
"""Programs with threads at work at the same time. The places of their blocks differ from run to run. So does the thread
that lets go of a block last and frees it."""

_RAISING = {"failures", "failing_operators", "tracebacks"}
"""Programs that hold on to errors, and so to the frames of a mode in Python. These frames hold on to arguments, which
are freed later than without us."""

_MATERIALISED = {"shapes_and_types"}
"""Programs with conjugates that torch materialises for one operator: a mode in Python holds on to them until that has ended."""

_WITHOUT_MEMORY = {"meta_device"}

_PROGRAM = """
import runpy, sys
sys.argv[1:] = [{name!r}]
runpy.run_path({source!r}, run_name='__main__')
"""


WAYS = {"native": NATIVE, "dispatched": DISPATCHED, "python": IN_PYTHON}
"""The text before a program, by where its operators are dispatched."""

_STACKS_ARE_ITS_OWN = {"replaced_call"}
"""Programs with functions of their own where operators that come to Python are called."""


class Runs(NamedTuple):
    """One program, observed in several ways."""

    observed: dict[str, ToolRun]
    """By where its operators are dispatched."""
    alone: ToolRun | None
    """The run without the tool. By day it leaves out the programs that test_torch_features.py compares."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Runs]:
    """Each program in each way, in forked processes."""
    programs = {
        name: _PROGRAM.format(name=name, source=str(SOURCES / f"{file}.py"))
        for file, name in PROGRAMS
        if NIGHT or name not in _AT_NIGHT
    }

    both = {f"{name}.{way}": text + program for name, program in programs.items() for way, text in WAYS.items()}
    observed = run_forked(both, tmp_path_factory.mktemp("observed"), OPTIONS)
    compared = {name: programs[name] for file, name in PROGRAMS if NIGHT or file != "torch_features"}
    alone = _run_alone(compared, tmp_path_factory.mktemp("alone"))
    return {name: Runs({way: observed[f"{name}.{way}"] for way in WAYS}, alone.get(name)) for name in programs}


def _without_stacks(threads: list[list[tuple[Any, ...]]]) -> list[list[tuple[Any, ...]]]:
    return [[row[:-1] for row in rows] for rows in threads]


def _run_alone(programs: dict[str, str], folder: Path) -> dict[str, ToolRun]:
    """Run programs in forked processes: by day of the Python that other modules of tests fork from, too."""
    if NIGHT:
        return run_forked(programs, folder)
    return {name: run_python(["-c", text], output=folder, variables={}) for name, text in programs.items()}


@pytest.mark.parametrize("way", ["native", "dispatched"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[nightly] if name in _AT_NIGHT else []) for _, name in PROGRAMS]
)
def test_the_recording_is_that_of_the_mode(runs: dict[str, Runs], name: str, way: str) -> None:
    """Row by row, apart from times and addresses; and the results are those of the program alone, to the bit."""
    observed, alone = runs[name]
    native, in_python = observed[way], observed["python"]
    assert native.returncode == 0, native.stderr
    assert in_python.returncode == 0, in_python.stderr
    assert in_python.stdout == native.stdout or name == "tracebacks"  # the mode in Python is in them
    if alone is not None:
        assert alone.returncode == 0, alone.stderr
        assert native.stdout == alone.stdout
    assert len(native.captures) == len(in_python.captures)
    assert native.captures or name in _WITHOUT_MEMORY
    kinds = KINDS - {EventKind.FREE} if name in _RAISING | _MATERIALISED | _BY_SEVERAL_THREADS else KINDS
    for ours, oracle in zip(native.captures, in_python.captures, strict=True):
        found = rows_by_thread(ours, kinds, knows_blocks=name not in _BY_SEVERAL_THREADS)
        expected = rows_by_thread(oracle, kinds, knows_blocks=name not in _BY_SEVERAL_THREADS)
        if name in _STACKS_ARE_ITS_OWN:
            found, expected = _without_stacks(found), _without_stacks(expected)
        assert found == expected, first_difference(found, expected)
        if name in _MATERIALISED | _BY_SEVERAL_THREADS:
            assert sizes_freed(ours) == sizes_freed(oracle)
