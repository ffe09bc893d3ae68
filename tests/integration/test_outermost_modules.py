"""Calls of the outermost module are counted, and the program does not see how."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import tool
from tests.support.nightly import nightly

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]

_ERRORS_AND_COPIES = """\
import copy, pickle, torch
import torch.nn.modules.module as modules

seen = []
class Inner(torch.nn.Module):
    def forward(self, x):
        seen.append(type(self).__name__)
        if x.numel() == 1:
            raise ValueError("one")
        if x.numel() == 2:
            raise KeyboardInterrupt
        return x + 1

class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.ModuleList([Inner(), Inner(), torch.nn.Identity()])
        self.late = None
    def forward(self, x):
        if x.numel() == 5:
            written = pickle.dumps(self)
            seen.append(b"msmemscope." in written)
            self.copied = pickle.loads(written), copy.deepcopy(self)
        if x.numel() == 6:
            self.late = self.register_forward_hook(lambda *_: seen.append("late"), always_call=True)
            x = x[:1]
        for each in self.inner:
            x = each(x)
        return x

def hook(name):
    return lambda *_: seen.append(name)

model = Outer()
def call(size, has_end=True):
    seen.clear()
    try:
        result = model(torch.zeros(size)).tolist()
    except BaseException as error:
        result = repr(error), repr(error.__context__)
    print(size, result, seen, *([len(model._forward_hooks), len(model._forward_hooks_always_called)] if has_end else []))

for size in (3, 1, 4, 5): call(size)  # four calls
globally = [
    modules.register_module_forward_hook(hook("global"), always_call=True),
    modules.register_module_forward_pre_hook(hook("global before")),
]
own = [
    model.register_forward_hook(hook("own"), always_call=True),
    model.inner[1].register_forward_hook(hook("inner"), always_call=True),
    model.register_forward_pre_hook(hook("own before")),
]
for size in (3, 1): call(size)  # two
call(6, has_end=False)  # one, with a hook behind ours
for size in (1, 4): call(size)  # two
model.late.remove()
for each in globally + own: each.remove()
for size in (3, 1): call(size)  # two
try:
    raise TypeError("handled")
except TypeError:
    call(3)
    call(1)  # two, while an error is handled
for copied in model.copied:
    print(copied(torch.zeros(3)).tolist())  # two of the same class
print([b"msmemscope" in pickle.dumps(each) for each in (model.inner)])
call(2, has_end=False)  # interrupted: it has no end that a hook sees
call(3)  # one
print(model._forward_hooks, len(modules._global_forward_hooks) < 2)
"""

_COMPILED = """\
import torch
model = torch.compile(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), backend="eager")
with torch.inference_mode():
    for _ in range(7):
        model(torch.zeros(2, 4))
"""

_THREADS = """\
import threading, torch
meet = threading.Barrier(2)
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = torch.nn.Identity(), torch.nn.Identity()
    def forward(self, x, waits):
        x = self.before(x)
        for _ in range(waits):
            meet.wait()
        return self.after(x)

model = Model()
x = torch.zeros(3)
def first():
    for _ in range(10):
        model(x, 0)
    for _ in range(20):
        model(x, 2)
def second():
    meet.wait()  # the first one is in its call
    for turn in range(20):
        model(x, 1 if turn == 0 else 2)
threads = [threading.Thread(target=each) for each in (first, second)]
for each in threads: each.start()
for each in threads: each.join(20)
"""


def _run(folder: Path, text: str, *options: str) -> tuple[tool.ToolRun, int]:
    program = folder / "program.py"
    program.write_text(text)
    output = folder / "out"
    run = tool.run([*tool.TOOL, "--device=cpu", f"--output={output}", sys.executable, *options, program], output=output)
    (steps,) = re.findall(r"steps: (\d+) calls of the model", run.stderr)
    return run, int(steps)


def test_errors_and_copies_are_those_of_the_program(tmp_path: Path) -> None:
    """Hooks run in their order, each error arrives, and nothing of ours is left in a module or written with it."""
    run, steps = _run(tmp_path, _ERRORS_AND_COPIES)
    alone = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True, check=True)
    assert run.stdout == alone.stdout
    assert steps == 4 + 5 + 2 + 2 + 2 + 1


@nightly
def test_a_compiled_module_warns_of_no_hooks(tmp_path: Path) -> None:
    """Warnings are errors here, as in the tests of many programs."""
    run, steps = _run(tmp_path, _COMPILED, "-W", "error")
    assert run.returncode == 0, run.stderr
    assert steps == 7


def test_calls_that_overlap_are_counted(tmp_path: Path) -> None:
    """Except for those before the first overlap was seen."""
    run, steps = _run(tmp_path, _THREADS)
    assert run.returncode == 0, run.stderr
    assert 47 <= steps <= 53
