"""The first line of runs that did not observe an NPU, or not for long enough."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.support import tool
from tests.support.ascend import PROGRAMS, TOLD_SINCE, torch_npu_release

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ascend.conftest import Observe


def _said(text: str) -> str:
    return " ".join(text[text.index("\nmsmemscope: ") :].split())


def test_leaks_on_two_devices_are_said_with_both(observe: Observe) -> None:
    """Their bytes are added up, so the name of one would be wrong."""
    seen = observe(["--device=npu"], "first_lines.py", "two_devices", variables={"VNPU_DEVICES": "2"}, anew=True)
    assert "msmemscope: leak: 11.4 MiB in 12 blocks on npu:0, npu:1 at " in _said(seen.run.stderr)


def test_two_steps_are_too_few(observe: Observe) -> None:
    """To say that nothing leaks."""
    seen = observe(["--device=npu"], "first_lines.py", "few")
    assert "msmemscope: leaks not judged: 2 steps have ended, at least 3 are needed" in _said(seen.run.stderr)


def test_a_device_that_was_left_out_is_named(observe: Observe) -> None:
    """Before what was found on the others."""
    seen = observe(["--device=cpu"], "first_lines.py", "few")
    assert "msmemscope: npu:0 not observed: --device=cpu leaves it out; " in _said(seen.run.stderr)


def test_a_pool_that_was_there_before_us(vnpu_environment: dict[str, str], tmp_path: Path) -> None:
    """torch_npu asks once who wants to know of its memory, for its first block; its trace tracker tells later ones."""
    run = tool.run(
        [sys.executable, PROGRAMS / "imported_late.py", tmp_path / "out"],
        output=tmp_path / "out", variables={**vnpu_environment, "VNPU_MEMORY": "1GiB"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    if torch_npu_release() >= TOLD_SINCE:
        assert "msmemscope: leak: 6.29 MiB in 6 blocks on npu:0 at " in _said(run.stderr)
        return
    assert (
        "msmemscope: npu not observed: torch_npu had set up its memory pool before msmemscope was there (import msmemscope "
        "before the first NPU tensor)"
    ) in _said(run.stderr)
