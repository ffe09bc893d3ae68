"""Operators on tensors of an NPU are recorded from native code as they are by the mode in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.support.forked import run_forked
from tests.support.nightly import NIGHT
from tests.support.operator_rows import IN_PYTHON, KINDS, NATIVE, OPTIONS, first_difference, rows_by_thread
from tests.support.targets import SOURCES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.tool import ToolRun


pytestmark = pytest.mark.slow

_ON_THE_NPU: Final = """
import os, runpy, sys
import torch
torch.set_default_device("npu")
sys.argv[1:] = [{name!r}]
runpy.run_path({source!r}, run_name='__main__')
"""
_OF_OWNER_TRUTHS: Final = """
import importlib, sys
sys.path.insert(0, {root!r})
import torch
torch.manual_seed(0)
importlib.import_module('tests.owner_truths.{file}').{name}()
"""
_WAYS: Final = {
    "operator_calls": ("training", "lifetimes", "numbers", "recomputation", "arguments")
    if NIGHT
    else ("training", "numbers"),
    "torch_features": ("fused_optimizers", "memory_formats") if NIGHT else (),
}
_TRUTHS: Final = {
    "training": ("checkpoints", "out_of_memory") if NIGHT else (),
    "inference": ("growing_cache",) if NIGHT else (),
}
_PROGRAMS: Final = {
    **{
        f"{file}.{name}": _ON_THE_NPU.format(name=name, source=str(SOURCES / f"{file}.py"))
        for file, names in _WAYS.items()
        for name in names
    },
    **{
        f"owners.{name}": _OF_OWNER_TRUTHS.format(root=str(SOURCES.parents[1]), file=file, name=name)
        for file, names in _TRUTHS.items()
        for name in names
    },
}


@pytest.fixture(scope="module")
def runs(
    vnpu_environment: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, ToolRun], dict[str, ToolRun]]:
    """All programs in one run, natively and in Python each in a process of its own."""
    variables = {**vnpu_environment, "OWNER_TRUTHS_DEVICE": "npu", "VNPU_MEMORY": "1GiB", "VNPU_DEVICES": "1"}
    programs = {f"{name}.native": NATIVE + text for name, text in _PROGRAMS.items()}
    programs |= {f"{name}.python": IN_PYTHON + text for name, text in _PROGRAMS.items()}
    every = run_forked(programs, tmp_path_factory.mktemp("operators"), OPTIONS, variables, device="npu,cpu")
    return (
        {name: every[f"{name}.native"] for name in _PROGRAMS},
        {name: every[f"{name}.python"] for name in _PROGRAMS},
    )


@pytest.mark.parametrize("name", _PROGRAMS)
def test_the_recording_is_that_of_the_mode(runs: tuple[dict[str, ToolRun], dict[str, ToolRun]], name: str) -> None:
    """Row by row, apart from times and addresses; and the program has the same results, to the bit."""
    native, in_python = (each[name] for each in runs)
    assert native.returncode == 0, native.stderr
    assert in_python.returncode == 0, in_python.stderr
    assert native.stdout == in_python.stdout or name.startswith("owners.")  # which print addresses
    (ours,) = native.captures
    (oracle,) = in_python.captures
    found = rows_by_thread(ours, KINDS, knows_blocks=True)
    expected = rows_by_thread(oracle, KINDS, knows_blocks=True)
    assert any(row[3] == 0 and row[0].startswith("ACCESS") for rows in found for row in rows)
    assert found == expected, first_difference(found, expected)


def test_an_operator_works_where_more_than_a_number_is(runs: tuple[dict[str, ToolRun], dict[str, ToolRun]]) -> None:
    """Not on the host, where its first argument is."""
    for each in runs:
        (capture,) = each["operator_calls.numbers"].captures
        devices = {
            (row[1].rpartition("torch._ops.aten.")[2], row[3])
            for rows in rows_by_thread(capture, KINDS, knows_blocks=False)
            for row in rows
            if row[0] == "ATEN_START"
        }
        assert ("sub.Tensor", 0) in devices
        assert not {name for name, device in devices if name.startswith("sub") and device != 0}
