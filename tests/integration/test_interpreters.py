"""Interpreters that a program makes beside its own end with it as they do without the tool."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import RunUnderTool

PROGRAM = """\
import threading
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
made = [interpreters.create() for _ in range(2)]
interpreters.run_string(made[0], "import sys")
waiting = threading.Event()
threading.Thread(target=waiting.wait, daemon=True).start()
raise SystemExit(3)
"""


@pytest.mark.parametrize("option", ["--call-stack=python", "--events=alloc,free,traceback"])
def test_a_program_that_leaves_interpreters_behind_has_its_exit_status(
    run_under_tool: RunUnderTool, tmp_path: Path, option: str
) -> None:
    """Nothing of ours runs in them when they end: the main thread would be ended with status 0, and other threads go on."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    assert run_under_tool([sys.executable, program], option, timeout_s=60).returncode == 3
