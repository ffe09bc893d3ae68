"""The whole screen that users see at the end of a run that ran out of memory on an NPU."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from msmemscope.reports.summary_screen import MOST_LINES
from tests.support import tool
from tests.support.nightly import NIGHT
from tests.support.summaries import REPOSITORY, check

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ascend.conftest import Observe

CARD = {
    "VNPU_COMPUTE": "none", "VNPU_MEMORY": "512MiB", "VNPU_DEVICES": "1", "VNPU_WORKSPACE": "16MiB",
    "VNPU_OVERHEAD": "RUNTIME=64MiB,AICPU=32MiB,OP=16MiB",
}  # fmt: skip
"""A small one; operators only allocate."""


@pytest.mark.slow
def test_a_training_that_leaks_until_it_fails(
    observe: Observe, vnpu_environment: dict[str, str], tmp_path: Path
) -> None:
    """Why memory ran out, at which line, in which step; and who holds it."""
    output = tmp_path / "memscopeDumpResults"
    options = ["--device=npu", "--call-stack=python"]
    program = [str(REPOSITORY / "examples" / "train_gpt.py"), "--device=npu", "--steps=60", "--leak"]
    if NIGHT:
        line = [*tool.TOOL, f"--output={output}", *options, "--", sys.executable, *program]
        run = tool.run(line, output=output, variables={**vnpu_environment, **CARD}, folder=REPOSITORY)
        assert run.returncode == 1
        said = run.stderr
    else:
        run = observe(options, *program, variables=CARD, expected_status=1).run
        said = run.stderr.replace(str(run.output), str(output))
    text = check("out_of_memory", said[said.index("\nmsmemscope: ") :], tmp_path)
    assert text.splitlines()[1].startswith("msmemscope: out of memory on npu:0 in step 6: leak, ")
    assert "held by main.history[...]" in " ".join(text.split())
    assert len(text.strip().splitlines()) <= MOST_LINES
