"""The verdict about watched memory that a user sees at the end of a run, and from `msmemscope analyze watch`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support import tool
from tests.support.nightly import nightly
from tests.support.warm import run_observed_with_results, run_python

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

PROGRAM = """
import ctypes
import torch
import msmemscope

library = torch.library.Library("faulty", "DEF")
library.define("scale(Tensor x) -> Tensor")
victim = torch.full((512,), 1.0)
calls = 0

def scale(x):
    global calls
    calls += 1
    if calls == WRONG_CALL:
        ctypes.memset(victim.data_ptr() + 128, 0xa5, 128)
    return x * 2

library.impl("scale", scale, "CPU")
WATCH
x = torch.ones(8)
for _ in range(4):
    torch.ops.faulty.scale(x)
victim.add_(1)
"""
BY_NAME = 'msmemscope.watcher.watch(victim, name="test")'


def run_program(tmp_path: Path, wrong_call: int, watch: str, *options: str) -> tool.ToolRun:
    """Run the program under the tool."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace("WRONG_CALL", str(wrong_call)).replace("WATCH", watch))
    run = run_observed_with_results([program], *options, output=tmp_path / "output")
    assert run.returncode == 0, run.stderr
    return run


def analyze(run: tool.ToolRun, *options: str) -> tool.ToolRun:
    """Run `analyze watch` on what was recorded."""
    return tool.run((*tool.TOOL, "analyze", "watch", run.capture.directory, *options), output=run.output)


@pytest.mark.parametrize("how", [pytest.param("tensor", marks=nightly), "auto"])
def test_a_wrong_write_is_told(tmp_path: Path, how: str) -> None:
    """The sentence names the memory, the operator, its call and the bytes; the line of the program stands below."""
    watch, options = (BY_NAME, ()) if how == "tensor" else ("", ("--watch=auto",))
    run = run_program(tmp_path, 3, watch, *options)
    text = " ".join(run.stderr.split())
    assert "ERROR: 1 unexpected change of watched memory" in text
    assert "(2.00 KiB on cpu" in text
    assert (
        "changed during faulty.scale.default (call 3), which does not list it among its outputs: bytes 128..255."
        in text
    )
    assert "program.py(22)" in text
    if how == "tensor":
        assert "Tensor `test`" in text
        assert "1 change by operators that may write it: aten.add_.Tensor (1)." in text
    else:
        assert "Block of aten.full.default" in text
        assert "Automatic watching: all live blocks were looked at before each of" in text
    assert analyze(run, "--fail-on-findings").returncode == 1
    content = json.loads(analyze(run, "--json").stdout)
    changes = content["processes"][0]["result"]["changes"]
    (change,) = [change for change in changes if change["verdict"] == "unexpected"]
    assert (change["operator"], change["call"]) == ("torch._ops.faulty.scale.default", 3)
    assert (change["first"], change["last"], change["device"]) == (128, 255, "cpu")
    assert "(call 3)" in change["sentence"]


@pytest.mark.parametrize("how", [pytest.param("tensor", marks=nightly), "auto"])
def test_a_clean_run_says_nothing_unexpected(tmp_path: Path, how: str) -> None:
    """Writes that an operator may do are counted, and no alarm is raised."""
    watch, options = (BY_NAME, ()) if how == "tensor" else ("", ("--watch=auto",))
    run = run_program(tmp_path, 0, watch, *options)
    assert "Watched memory: no unexpected change" in run.stderr
    assert "ERROR" not in run.stderr
    assert analyze(run, "--fail-on-findings").returncode == 0


TRAINING = """
import torch
import msmemscope

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.Adam(model.parameters())
msmemscope.watcher.watch(WATCHED, name="best")
for _ in range(4):
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("watched", "is_told"),
    [
        ('model.state_dict()["weight"]', True),
        ("model.weight.detach().clone()", False),
        ("model.weight", False),
        ("torch.nn.Parameter(model.weight.data)", True),
    ],
)
def test_who_writes_a_tensor_under_another_name_is_told(tmp_path: Path, watched: str, *, is_told: bool) -> None:
    """A state that shares memory with the weights is written by the optimizer; that it writes the weights is no news."""
    program = tmp_path / "program.py"
    program.write_text(TRAINING.replace("WATCHED", watched))
    run = run_observed_with_results([program], output=tmp_path / "output")
    assert run.returncode == 0, run.stderr
    text = " ".join(run.stderr.split())
    sentence = "program.py(10), tensor `best` (256 bytes on cpu) was written 4 times, last by aten."
    assert ("msmemscope: overwritten as declared: " in text) is is_told
    assert (sentence in text) is is_told
    assert ("no unexpected change of watched memory" in text) is not is_told
    assert analyze(run, "--fail-on-findings").returncode == 0


@pytest.mark.parametrize(
    "start, words",
    [
        ("torch._ops.aten.add_.Scalar", "; what did run: aten.add_.Tensor."),
        ("scale", "; what did run: faulty.scale.default."),
        pytest.param("torch._ops.faulty.skale.default", "; what did run: faulty.scale.default.", marks=nightly),
        pytest.param("torch._ops.aten.convolution.default", ".", marks=nightly),
    ],
)
def test_a_window_that_never_begins_is_told(tmp_path: Path, start: str, words: str) -> None:
    """One line at the end, and again in the summary: the operator that was asked for, and what is called similarly."""
    run = run_program(tmp_path, 0, "", f"--watch={start},torch._ops.aten.add_.Tensor")
    assert run.stderr.count(f"msmemscope: watch: {start} never ran: none of its outputs was watched\n") == 1
    sentence = f"{start.removeprefix('torch._ops.')} never ran: none of its outputs was watched{words}"
    assert sentence in " ".join(run.stderr.split())
    assert run.capture.facts["watch.window_never_began"] == (start,)


def test_a_window_that_never_begins_is_reported_without_the_launcher(tmp_path: Path) -> None:
    """A program that turned recording on itself reports it in the results it writes at exit, not after them."""
    program, output = tmp_path / "program.py", tmp_path / "output"
    program.write_text(
        "import torch, msmemscope\n"
        f"msmemscope.config(device='cpu', output={str(output)!r},"
        " watch='torch._ops.aten.nosuch.default,torch._ops.aten.mul.Tensor')\n"
        "msmemscope.start()\n"
        "x = torch.ones(8) * 2\n"
        "msmemscope.stop()\n"
    )
    run = run_python([program], output=output, variables={})
    assert run.returncode == 0, run.stderr
    sentence = "aten.nosuch.default never ran: none of its outputs was watched."
    assert sentence in " ".join(run.stderr.split())
    assert run.capture.facts["watch.window_never_began"] == ("torch._ops.aten.nosuch.default",)


def test_a_window_that_begins_is_not_told_of(tmp_path: Path) -> None:
    """Neither line nor fact."""
    run = run_program(tmp_path, 0, "", "--watch=torch._ops.faulty.scale.default,torch._ops.aten.add_.Tensor")
    assert "never ran" not in run.stderr
    assert not [key for key in run.capture.facts if key.startswith("watch.window")]


def test_nothing_is_said_where_nothing_was_watched(tmp_path: Path) -> None:
    """The summary has no word about it."""
    run = run_program(tmp_path, 0, "")
    assert "watched" not in run.stderr.lower()
    assert "No memory was watched" in analyze(run).stdout
