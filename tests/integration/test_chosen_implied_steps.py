"""`--steps` counts the steps that the summary counts, also where the program marks none."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import tool
from tests.support.nightly import nightly
from tests.unit.formats.dump.conftest import csv_rows

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]

_PROGRAM = """\
import sys, torch
if "marks" in sys.argv:
    import msmemscope
layer = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for number in range(1, 7):
    batch = torch.ones(1000 * number)
    del batch
    layer(torch.randn(4, 16)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    behind = torch.ones(1000 * number + 500)
    del behind
    if "marks" in sys.argv:
        msmemscope.step()
"""


def _steps_of(folder: Path, steps: str, *words: str) -> tuple[set[float], str]:
    """The steps whose blocks were recorded, those behind the optimizer's step as halves; and the summary."""
    program = folder / "program.py"
    program.write_text(_PROGRAM)
    output = folder / "out"
    run = tool.run(
        [*tool.TOOL, f"--steps={steps}", f"--output={output}", sys.executable, program, *words], output=output
    )
    assert run.returncode == 0, run.stderr
    (dump,) = output.glob("*/device_cpu/dump/*.csv")
    sizes = [
        int(row["Attr"].partition("size:")[2].partition(",")[0]) for row in csv_rows(dump) if row["Event"] == "MALLOC"
    ]
    return {size / 4000 for size in sizes if size % 2000 == 0}, " ".join(run.stderr.split())


@pytest.mark.parametrize(
    ("steps", "marks", "expected"),
    [
        ("2", False, {1.5, 2}),
        pytest.param("3,5", False, {2.5, 3, 4.5, 5}, marks=nightly),
        # The program could still say that its first step goes on: the second is recorded with it.
        pytest.param("1", False, {1, 1.5, 2}, marks=nightly),
        pytest.param("2", True, {2, 2.5}, marks=nightly),
        ("1", True, {1, 1.5}),
    ],
)
def test_they_are_the_steps_of_the_optimizer_until_the_program_marks_its_own(
    steps: str, *, marks: bool, expected: set[float], tmp_path: Path
) -> None:
    """A step of the optimizer begins where the one before ended, so that what stands behind it is of the next."""
    found, summary = _steps_of(tmp_path, steps, *(["marks"] if marks else []))
    assert found == expected
    assert "leaks and failed allocations not judged: with --steps only some of the steps were collected" in summary


def test_a_step_that_never_came_is_named(tmp_path: Path) -> None:
    """With how many there were; nothing is said to be found or not."""
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    output = tmp_path / "out"
    run = tool.run([*tool.TOOL, "--steps=9", f"--output={output}", sys.executable, program], output=output)
    assert "steps 1 to 6 ended, --steps=9 did not happen" in " ".join(run.stderr.split())
    assert "nothing found" not in run.stderr


_SERVER = """\
import sys, torch
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))
kept = []
for number in range(40):
    with torch.no_grad():
        answer = model(torch.ones(32, 64))
    if "keeps" in sys.argv:
        kept.append(answer.repeat(1, 64))
    if "marks" in sys.argv:
        import msmemscope
        msmemscope.step()
"""


@pytest.mark.parametrize(
    "words",
    [
        pytest.param([], id="healthy", marks=nightly),
        pytest.param(["keeps"], id="keeps"),
        pytest.param(["marks"], id="marks"),
    ],
)
def test_what_is_called_a_step_of_a_server_is_said_where_the_screen_speaks_of_steps(
    words: list[str], tmp_path: Path
) -> None:
    """A server has none: calls of its model are taken for them. Where the program marks its own, they need no words."""
    program = tmp_path / "server.py"
    program.write_text(_SERVER)
    output = tmp_path / "out"
    run = tool.run([*tool.TOOL, f"--output={output}", "--device=cpu", sys.executable, program, *words], output=output)
    first = run.stderr.split("Peak on")[0].split("next:")[0]
    assert ("leak: " in first) is ("keeps" in words), run.stderr
    assert " steps" in first, run.stderr
    lines = first.strip().splitlines()
    if "marks" in words:
        assert "calls of the model" not in run.stderr
    else:
        assert lines[-1] == "  steps: 40 calls of the model", run.stderr
