"""Writes beside what an operator was given, in the same storage; and what compiled code rightly writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.nightly import nightly
from tests.support.warm import run_observed_with_results

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

ARENA = """
import ctypes, sys, torch
@torch.library.custom_op("my::fill_out", mutates_args=("out",))
def fill_out(out: torch.Tensor, beside: int) -> None:
    out.fill_(1.0)
    ctypes.memset(out.data_ptr() + (out.nbytes if beside > 0 else beside), 7, abs(beside))

arena = torch.zeros(int(sys.argv[1]))
part = arena[512 : 512 + int(sys.argv[2])]
for _ in range(3):
    torch.sin(arena)
fill_out(part, int(sys.argv[3]))
torch.sin(arena)
"""
STRIDED = """
import ctypes, sys, torch, msmemscope
@torch.library.custom_op("my::scale_out", mutates_args=("out",))
def scale_out(x: torch.Tensor, out: torch.Tensor, wrong: bool) -> None:
    if wrong:
        ctypes.memset(out.data_ptr(), 1, 4 * out.numel())
    else:
        out.copy_(x)

both = torch.zeros(512)
even, odd = both[::2], both[1::2]
msmemscope.watcher.watch(odd, name="odd")
scale_out(torch.ones(256), even, sys.argv[1] == "wrong")
torch.sin(both)
"""
COMPILED = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.GELU())
compiled = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), 1e-2)
for _ in range(4):
    compiled(torch.randn(32, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
assert model[1].num_batches_tracked == 4
"""


def summary(tmp_path: Path, program: str, *arguments: str, watch: str = "--watch=auto") -> str:
    """The summary of a run as one line."""
    (tmp_path / "program.py").write_text(program)
    run = run_observed_with_results(
        [tmp_path / "program.py", *arguments], watch, output=tmp_path / "-".join(["output", *arguments])
    )
    assert run.returncode == 0, run.stderr
    return " ".join(run.stderr.split())


@pytest.mark.parametrize("floats", [4096, 65536, 1 << 20])
@pytest.mark.parametrize("beside", [32, -32])
def test_a_write_beside_a_part_of_an_arena(tmp_path: Path, floats: int, beside: int) -> None:
    """Whatever the size of the arena, in front of the part or behind it."""
    said = summary(tmp_path, ARENA, str(floats), "1024", str(beside))
    first = 2048 + 4096 if beside > 0 else 2048 - 32
    assert "overwritten: 32 bytes" in said
    assert (
        f"by my.fill_out.default (call 1) beside what that may write, such as in its padding: bytes {first}..{first + 31}"
        in said
    )


@pytest.mark.parametrize("floats", [4096, 65536])
def test_a_write_of_what_was_given_is_none(tmp_path: Path, floats: int) -> None:
    """The part alone."""
    assert "no unexpected change of watched memory" in summary(tmp_path, ARENA, str(floats), "1024", "0")


def test_a_view_between_the_elements_that_were_given(tmp_path: Path) -> None:
    """An operator that ignores the stride of its output writes what it was not given."""
    said = summary(tmp_path, STRIDED, "wrong", watch="--watch=")
    assert "tensor `odd` (1.00 KiB on cpu) changed during my.scale_out.default (call 1), which does not list it" in said
    assert "no unexpected change" in summary(tmp_path, STRIDED, "right", watch="--watch=")


@nightly
@pytest.mark.timeout(300)
def test_what_compiled_code_rightly_writes(tmp_path: Path) -> None:
    """Running statistics are updated by code of inductor, without any operator."""
    assert "no unexpected change of watched memory" in summary(tmp_path, COMPILED)
