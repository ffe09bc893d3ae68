"""Operators that run others take part in what torch does around them as they do without the tool.

With lazy conjugation, they agree allocation for allocation. Bits are not compared: results of LAPACK depend on where
memory begins, also without the tool. They also take part in the count of writes in place, in gradients, and in
autocast. The tests use operators for which no outer layer does this as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.warm import run_observed_with_results, run_python

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

PROGRAM = """
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
wide, tall = (torch.randn(*shape, dtype=torch.complex64) for shape in ((3, 5), (5, 3)))
right = torch.randn(5, 2, dtype=torch.complex64)
calls = (
    lambda: torch.linalg.pinv(wide), lambda: torch.linalg.pinv(tall), lambda: torch.linalg.pinv(tall.mH),
    lambda: torch.linalg.lstsq(tall, right), lambda: tall.conj() @ wide.conj(), lambda: tall.imag.neg() * 2,
)
for call in calls:
    call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    events = sorted(profiler.events(), key=lambda event: event.time_range.start)
    print([event.cpu_memory_usage for event in events if event.name == "[memory]"])
"""

OPTIONS = pytest.mark.parametrize("option", ["--events=alloc,free,launch,access", "--watch=auto"])
"""Of operators that are dispatched in native code, and in Python."""

COUNTING = """
import torch
value, ones, lists = torch.ones(3), torch.ones(3), [torch.empty(3), torch.empty(3)]
library = torch.library.Library("of_the_test", "DEF")
library.define("written(Tensor(a!) x) -> ()")
library.impl("written", lambda x: (x.mul_(2), None)[1], "CPU")
library.define("result(Tensor x) -> Tensor")
library.impl("result", lambda x: x.sin() * 2, "CPU")
for write in (
    lambda: torch._foreach_add_([value], 1), lambda: torch._foreach_mul_([value], [ones]),
    lambda: torch._foreach_zero_([value]), lambda: torch._foreach_copy_([value], [ones]),
    lambda: torch.ops.of_the_test.written(value), lambda: value.add_(1), lambda: torch.add(ones, 1, out=value),
):
    write()
    print(value._version)
print([each._version for each in torch.unbind_copy(torch.ones(2, 3), out=lists) or lists])
for make in (torch.zeros, torch.ops.aten.zeros, lambda size: torch.ops.aten.full(size, 1.0), torch.ones):
    print(make([3])._version)
    with torch.inference_mode():
        print(make([3]).is_inference())
for operator in (torch.ops.of_the_test.result, lambda x: torch.copysign(ones, x), lambda x: x.cummax(0).values):
    source = torch.linspace(-1, 1, 3).requires_grad_()
    result = operator(source)
    result.sum().backward()
    print(type(result.grad_fn).__name__, source.grad.tolist(), source.grad._version)
    with torch.no_grad():
        print(operator(source).requires_grad)
library.define("product(Tensor x) -> Tensor")
library.impl("product", lambda x: x @ x, "CPU")
for enabled in (True, False):
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
        print(torch.ops.of_the_test.product(torch.ones(3, 3)).dtype, torch.zeros(3).dtype)
weights = torch.ones(3, requires_grad=True)
loss = (weights * weights).sum()
with torch.no_grad():
    torch._foreach_add_([weights], 1)
try:
    loss.backward()
    print("not noticed")
except RuntimeError as error:
    print(error)
"""


def compare(tmp_path: Path, text: str, option: str) -> str:
    """Check that a program prints the same with the tool; returns what that is."""
    program = tmp_path / "program.py"
    program.write_text(text)
    alone = run_python([program], output=tmp_path, variables={})
    observed = run_observed_with_results([program], option, output=tmp_path / "output")
    assert alone.returncode == 0, alone.stderr
    assert observed.stdout == alone.stdout
    return alone.stdout


@OPTIONS
def test_conjugates_are_made_as_they_are_alone(tmp_path: Path, option: str) -> None:
    """Of a pseudoinverse, a decomposition, a product."""
    assert compare(tmp_path, PROGRAM, option)


@OPTIONS
def test_what_is_written_is_counted_as_it_is_alone(tmp_path: Path, option: str) -> None:
    """Or else torch would not notice that a program has overwritten what its backward pass needs; gradients go where they go alone."""
    assert "modified by an inplace operation" in compare(tmp_path, COUNTING, option)
