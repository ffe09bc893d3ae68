"""How torch hands operators over is learned from calls that are made for it, and not believed where one does not fit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.warm import run_python

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]

LESSONS = """
import json, sys
import torch
from msmemscope import _native
from msmemscope.capture import boxed_calls
from msmemscope.capture.tensor_layout import learn_tensor_layout

assert learn_tensor_layout()
teach = _native.teach_boxed_call
lessons = []


class Taught:
    end_boxed_lessons = staticmethod(_native.end_boxed_lessons)

    @staticmethod
    def teach_boxed_call(mode, name, overload, arguments):
        lessons.append(name)
        return teach(mode, *change(name, overload, arguments))


def change(name, overload, arguments):
    return name, overload, arguments


boxed_calls._native = Taught
other = torch.ones(3)
"""
"""A program in which the lessons can be changed."""


def taught(folder: Path, change: str) -> list[bool]:
    """Return whether calls were understood after lessons that were changed, and after the true ones."""
    text = f"""{LESSONS}
{change}
loaded = set(sys.modules)
first = boxed_calls.learn_boxed_calls()
assert set(sys.modules) == loaded  # not torch's compiler, above all
boxed_calls._native = _native
print(json.dumps([first, boxed_calls.learn_boxed_calls(), boxed_calls.learn_boxed_calls()]))
print(*lessons)
assert (torch.ones(2) + 1).tolist() == [2, 2]
"""
    run = run_python(["-c", text], output=folder, variables={})
    assert run.returncode == 0, run.stderr
    answers, lessons = run.stdout.splitlines()
    assert lessons == "aten::cat aten::add aten::empty aten::stack"
    found: list[bool] = json.loads(answers)
    return found


def test_they_are_learned(tmp_path: Path) -> None:
    """Once and for all."""
    assert taught(tmp_path, "") == [True, True, True]


CHANGES = {
    "name": ("aten::add", 'return "aten::sub", overload, arguments'),
    "overload": ("aten::add", 'return name, "Scalar", arguments'),
    "overload that is none": ("aten::cat", 'return name, "out", arguments'),
    "count of arguments": ("aten::add", "return name, overload, arguments + (True,)"),
    "tensor": ("aten::add", "return name, overload, (other._cdata, *arguments[1:])"),
    "order of a list": ("aten::stack", "return name, overload, (arguments[0][::-1], *arguments[1:])"),
    "device": ("aten::empty", "return name, overload, (*arguments[:3], (other._cdata,), *arguments[4:])"),
    "nothing": ("aten::empty", "return name, overload, (None, *arguments[1:])"),
}


@pytest.mark.parametrize("changed", CHANGES)
def test_one_lesson_that_does_not_fit_is_enough(changed: str, tmp_path: Path) -> None:
    """Nothing is believed then; true lessons are, afterwards."""
    name, result = CHANGES[changed]
    change = f"def change(name, overload, arguments):\n    if name == {name!r}:\n        {result}\n"
    assert taught(tmp_path, f"{change}    return name, overload, arguments") == [False, True, True]


def test_operators_are_recorded_where_it_cannot_be_learned(tmp_path: Path) -> None:
    """A torch that keeps all of it elsewhere: the mode sees every operator."""
    text = f"""
import torch
from msmemscope import _native
from msmemscope.capture import boxed_calls
_native.teach_boxed_call = lambda *arguments: False
import msmemscope
from msmemscope.capture.torch_operators import OperatorMode
msmemscope.config(events="alloc,free,launch,access", output={str(tmp_path)!r})
msmemscope.start()
assert OperatorMode.tensors_are_known and OperatorMode.may_be_native and not OperatorMode.may_be_boxed
torch.ones(100).add_(torch.ones(100))
msmemscope.stop()
"""
    run = run_python(["-c", text], output=tmp_path, variables={})
    assert run.returncode == 0, run.stderr
    assert run.captures


def test_nothing_is_tried_where_the_program_would_see_it(tmp_path: Path) -> None:
    """Modes and transforms of the program, and graphs that it traces."""
    text = """
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from msmemscope.capture.boxed_calls import learn_boxed_calls
from msmemscope.capture.tensor_layout import learn_tensor_layout
assert learn_tensor_layout()

class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise AssertionError(func)

with Mode():
    assert not learn_boxed_calls()
assert torch.func.vmap(lambda x: x * (2 - learn_boxed_calls()))(torch.ones(3)).tolist() == [2, 2, 2]

def traced(x):
    assert not learn_boxed_calls()
    return x + 1

assert "stack" not in str(torch.jit.trace(traced, torch.ones(3), check_trace=False).graph)
assert learn_boxed_calls()
"""
    run = run_python(["-c", text], output=tmp_path, variables={})
    assert run.returncode == 0, run.stderr
