"""Allocations in the threads of torch's backward engine have the line of the program that called the backward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.formats.reading import load
from msmemscope.model.pools import Pool
from msmemscope.recording.call_sites import call_sites
from tests.support.ascend import PROGRAMS

if TYPE_CHECKING:
    from msmemscope.recording import Recording
    from tests.ascend.conftest import Observe

PROGRAM = "backward_lines.py"
ROW_BYTES = 64 * 4
ROUNDING = 512 + 32
"""The bytes that torch_npu adds to a size."""
SOURCE = (PROGRAMS / PROGRAM).read_text(encoding="utf-8").splitlines()


def line_of(mark: str) -> str:
    """The text of the line that ends with a mark, as sites begin."""
    (number,) = (number for number, line in enumerate(SOURCE, start=1) if line.endswith(f"# {mark}"))
    return f"{PROGRAM}({number}): "


@pytest.fixture(scope="module")
def recording(observe_once: Observe) -> Recording:
    """One run of the program."""
    return load(observe_once(["--call-stack=python", "--level=op"], PROGRAM).run.capture.directory)


def sites_of(recording: Recording, rows: int) -> dict[str, set[str]]:
    """Names of the operators that allocated tensors of so many rows -> their sites, without folders."""
    size = rows * ROW_BYTES
    blocks = recording.blocks.filter(pl.col("pool") == Pool.PTA, pl.col("size").is_between(size, size + ROUNDING - 1))
    found = blocks.join(call_sites(recording, blocks), on=["python_stack_id", "native_stack_id", "name_id"])
    named = found.join(recording.strings.select(name_id="id", name="text"), on="name_id")
    pairs = named.group_by("name").agg("site")
    return {
        name.removeprefix("torch._ops.aten."): {site.rpartition("/")[2] for site in sites}
        for name, sites in pairs.iter_rows()
    }


@pytest.mark.parametrize(("mark", "rows"), [("PLAIN", 16), ("GRAD", 32)])
def test_the_line_of_the_call(recording: Recording, mark: str, rows: int) -> None:
    """Of `backward` and of `grad`; also after a pass that failed. Only backward passes multiply by a number of Python."""
    function = {"PLAIN": "plain", "GRAD": "of_grad"}[mark]
    assert sites_of(recording, rows)["mul.Scalar"] == {f"{line_of(mark)}{function}"}


def test_a_function_of_python_has_its_own_line(recording: Recording) -> None:
    """And behind it the call of the pass, which no frame of its thread tells."""
    assert sites_of(recording, 48)["repeat.default"] == {f"{line_of('IN FUNCTION')}backward"}
    stacks = recording.python_stacks["text"].to_list()
    assert any(line_of("IN FUNCTION") in text and line_of("FUNCTION") in text for text in stacks)


def test_a_pass_inside_of_a_pass_has_the_line_of_the_outer_one(recording: Recording) -> None:
    """A checkpoint calls backward() in the engine's thread, where no frame is the program's."""
    assert sites_of(recording, 64)["mul.Scalar"] == {f"{line_of('REENTRANT')}reentrant"}


def test_threads_that_call_it_at_once(recording: Recording) -> None:
    """From one line they have it; from several nobody knows whose a thread of the engine works for, and no wrong one is named."""
    assert sites_of(recording, 128)["mul.Scalar"] == {f"{line_of('PLAIN')}plain"}
    found = sites_of(recording, 256)
    possible = {f"{line_of('PLAIN')}plain", f"{line_of('GRAD')}of_grad", "torch._ops.aten.mul.Scalar"}
    assert found["mul.Scalar"] <= possible
    assert found["repeat.default"] == {f"{line_of('IN FUNCTION')}backward"}
    for text in recording.python_stacks["text"]:
        if line_of("IN FUNCTION") in text:
            assert line_of("PLAIN") not in text
            assert line_of("GRAD") not in text
