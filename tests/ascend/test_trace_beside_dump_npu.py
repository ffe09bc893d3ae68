"""The Python trace lies beside the dump of the device, whichever was used first."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import tool

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]

PROGRAM = """
import msmemscope, torch
msmemscope.config(events="traceback", data_format="db", device="npu")
msmemscope.start()
host = torch.ones(10)
import torch_npu
device = torch.ones(10, device="npu:0")
msmemscope.stop()
"""


def test_a_trace_has_one_database(tmp_path: Path, vnpu_environment: dict[str, str]) -> None:
    """That of the NPU, with the rows of start() and stop() once."""
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    output = tmp_path / "memscopeDumpResults"
    run = tool.run([sys.executable, "program.py"], output=output, folder=tmp_path, variables=vnpu_environment)
    assert run.returncode == 0, run.stderr
    (database,) = output.rglob("*.db")
    assert database.parents[1].name == "device_0"
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute('SELECT "Event Type", "Device Id" FROM memscope_dump').fetchall()
        (calls,) = connection.execute(f"SELECT count(*) FROM python_trace_{run.capture.header.process_id}").fetchone()
    assert [kind for kind, _ in rows if kind.endswith("_TRACE")] == ["START_TRACE", "STOP_TRACE"]
    assert {device for _, device in rows} == {"0"}
    assert calls > 0
