"""Torch allocates under the tool what it allocates alone, in the same order: its own profiler says so.

Torch computes much in another way while a dispatch mode is active. Without a mode of the program's own it must decide as if
there were none; with one, as it does with that one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.targets import SOURCES
from tests.support.warm import run_observed, run_python

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.tool import ToolRun

pytestmark = [pytest.mark.torch, pytest.mark.slow]

PROGRAM = SOURCES / "choices_of_torch.py"


def memory(run: ToolRun, file: Path) -> dict[str, list[int]]:
    """Return what each case allocated and freed, the numbers of 8 bytes that are computed with included."""
    assert run.returncode == 0, run.stderr
    found: dict[str, list[int]] = json.loads(file.read_text())
    return found


def memory_alone(folder: Path, *words: str) -> dict[str, list[int]]:
    """Return what each case allocates and frees without the tool."""
    file = folder / "alone.json"
    return memory(run_python([PROGRAM, file, "cpu", *words], output=folder, variables={}), file)


@pytest.mark.parametrize("words", [(), ("mode",)], ids=["alone", "with a mode of the program"])
def test_torch_allocates_what_it_allocates_alone(words: tuple[str, ...], tmp_path: Path) -> None:
    """Each allocation and free, where the tool was there from the beginning."""
    file = tmp_path / "observed.json"
    run = run_observed([PROGRAM, file, "cpu", *words], output=tmp_path / "output")
    assert memory(run, file) == memory_alone(tmp_path, *words)


def test_so_it_does_where_recording_is_begun_by_a_call(tmp_path: Path) -> None:
    """Torch's libraries were loaded without the tool."""
    file = tmp_path / "observed.json"
    run = run_python([PROGRAM, file, "cpu", "calls"], output=tmp_path, variables={})
    assert memory(run, file) == memory_alone(tmp_path)


def test_a_mode_of_the_program_changes_what_torch_allocates(tmp_path: Path) -> None:
    """Or else nothing could be seen by the tests above."""
    with_mode, without = memory_alone(tmp_path, "mode"), memory_alone(tmp_path)
    assert {case for case in without if with_mode[case] != without[case]} > {"summed_gradients", "pooled"}
