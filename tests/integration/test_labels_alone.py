"""Labels of the user where nobody asked what memory is made of: they stand in the owner of their blocks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.support import tool
from tests.unit.formats.dump.conftest import csv_rows

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.slow]

PROGRAM = """
import torch
import msmemscope.describe as describe

@describe.describer(owner="test1")
def allocates():
    return torch.ones(111)

function = allocates()
with describe.describer(owner="test2"):
    code = torch.ones(222)
describe.describer(owner="test3").__enter__()
more = torch.ones(333)
describe.describer(owner="test3").__exit__()
tensor = torch.ones(444)
describe.describer(tensor, owner="test4")
other = torch.ones(555)
"""


@pytest.mark.parametrize("options", [(), ("--analysis=",)], ids=["by default", "no analysis"])
def test_labels_without_decompose(options: tuple[str, ...], tmp_path: Path) -> None:
    """Each way of giving one; blocks without a label have no owner."""
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    command = [*tool.TOOL, "--device=cpu", *options, "--", sys.executable, "program.py"]
    run = tool.run(command, output=tmp_path / "memscopeDumpResults", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    (dump,) = run.output.glob("*/device_cpu/dump/memscope_dump_*.csv")
    blocks = [row["Attr"] for row in csv_rows(dump) if row["Event"] == "MALLOC"]
    for count, owner in ((111, "test1"), (222, "test2"), (333, "test3"), (444, "test4")):
        (block,) = [block for block in blocks if f"size:{4 * count}," in block]
        assert block.endswith(f",owner:HOST@{owner}}}")
    (other,) = [block for block in blocks if "size:2220," in block]
    assert "owner" not in other
