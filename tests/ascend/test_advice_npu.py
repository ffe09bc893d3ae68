"""Programs that run out of memory with free memory finish on the same device with the line that `advise` prints."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

import pytest

from msmemscope.cli.main import main
from tests.support.nightly import nightly

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.ascend.conftest import RunAlone

CAPACITY: Final = "800MiB"
"""Of the device of 1 GiB, without what the virtual NPU gives to the runtime."""
REFUSED: Final = 3


def status(run_alone: RunAlone, folder: Path, settings: Mapping[str, str], reason: str, snapshot: str) -> int:
    """Run the program; no operator computes."""
    variables = {"VNPU_COMPUTE": "none", "VNPU_MEMORY": "1GiB", **settings}
    run = run_alone("out_of_memory_with_free_memory.py", reason, snapshot, folder=folder, variables=variables)
    assert run.returncode in {0, REFUSED}, run.stderr[-3000:]
    return run.returncode


@pytest.mark.parametrize(
    "reason",
    [
        "splitting",
        pytest.param("pinning", marks=nightly),
        pytest.param("two-streams", marks=nightly),
        pytest.param("fixed-segments", marks=nightly),
    ],
)
def test_the_line_that_is_printed_helps(
    reason: str, run_alone: RunAlone, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It fails bare; its snapshot gives advice; with the line that is printed it runs to its end."""
    assert status(run_alone, tmp_path, {}, reason, "failed.pickle") == REFUSED
    assert main(["advise", str(tmp_path / "failed.pickle"), f"--capacity={CAPACITY}"]) == 0
    said = capsys.readouterr().out
    assert "does not fit in 800 MiB as it is, and does with" in said
    (line,) = re.findall(r"^ *export (\S.*)$", said, re.MULTILINE)
    name, _, value = shlex.split(line)[0].partition("=")
    assert status(run_alone, tmp_path, {name: value}, reason, "finished.pickle") == 0
