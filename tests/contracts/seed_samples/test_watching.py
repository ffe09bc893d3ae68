"""The samples of the seed documents that watch memory: from Python and from the command line, on the virtual NPU."""

from __future__ import annotations

import csv
import json
import re
import struct
from pathlib import Path
from typing import Final

import pytest

from tests.support.nightly import nightly
from tests.support.seed_samples import (
    SAMPLES,
    Workplace,
    run_forked_under_tool,
    run_python,
)

pytestmark = pytest.mark.slow

OUTPUT_FOLDERS: Final = {"msmemscope": "memscopeDumpResults", "msleaks": "leaksDumpResults"}
"""Command to the folder that its documents name."""
WATCHED_ACTIONS: Final = """\
test_tensor.add_(1)
doubled = test_tensor * 2
"""
"""The code for the three points of a sample: an operator that writes the tensor, and one that reads it."""


def watch_files(output: Path) -> dict[str, bytes]:
    """Name to content of what lies in watch_dump, directly under the output folder."""
    return {path.name: path.read_bytes() for path in (output / "watch_dump").iterdir()}


@pytest.mark.parametrize(
    "key",
    [
        "000 watch-tensor",
        pytest.param("001 watch-address", marks=nightly),
        pytest.param("000 watch-address", marks=nightly),
        pytest.param("001 watch-tensor", marks=nightly),
    ],
)
def test_watch_from_python(workplace: Workplace, key: str) -> None:
    """A table of the device's checksums; dump_nums=2 ends it after the first operator, changes are found all the same."""
    program = SAMPLES[key].filled({"...\n": WATCHED_ACTIONS})
    program += 'test_tensor.mul_(2)\nimport threading\nprint(f"thread={threading.get_native_id()}")\n'
    command = "msleaks" if key.startswith("000") else "msmemscope"
    folder = workplace.folder / OUTPUT_FOLDERS[command]
    seen = run_python(workplace, program, f"export ASCEND_LAUNCH_BLOCKING=1\n{command}", folder)
    ((name, content),) = watch_files(seen.run.output).items()
    assert re.fullmatch(r"watch_dump_data_check_sum_0_[0-9]{14}[.]csv", name)
    header, *rows = csv.reader(content.decode().splitlines())
    assert header == ["Tensor info", "Check data sum"]
    names = [
        f"0_{seen.run.report['thread']}_torch._ops.aten.add_.Tensor_1-test_0_{when}.bin" for when in ("before", "after")
    ]
    assert [row[0] for row in rows] == names
    assert all(re.fullmatch("[0-9a-f]{16}", row[1]) for row in rows)
    assert rows[0][1] != rows[1][1]
    assert "Watched memory: no unexpected change" in seen.run.stderr
    # 1000 bytes are more than the block of the tensor: the next one, which mul makes, is watched too.
    writers = ["aten.add_.Tensor (1)"] if key.endswith("tensor") else ["aten.add_.Tensor (1)", "aten.mul.Tensor (1)"]
    changes = "1 change" if len(writers) == 1 else "2 changes"
    text = " ".join(seen.run.stderr.split())
    assert f"{changes} by operators that may write it: {', '.join(writers)}." in text, "mul_ ran after remove"


@pytest.mark.parametrize("key", [pytest.param("000 watch-command", marks=nightly), "001 watch-command"])
def test_watch_from_the_command_line(workplace: Workplace, key: str) -> None:
    """From the end of the first operator to that of the last one, a file of contents for each look."""
    program = "import threading\nimport torch\nimport torch_npu\n"
    program += "test_tensor = torch.arange(1.0, 7.0).npu()\nmade = torch.neg(test_tensor)\nmade.add_(1)\nmade.abs()\nmade.cos()\n"
    program += 'print(f"thread={threading.get_native_id()}")\n'
    operators = {"start:outid": "torch._ops.aten.neg.default:0", ",end,": ",torch._ops.aten.abs.default,"}
    if key.startswith("000"):
        operators["<app_name>"] = "python user_program.py"
    folder = workplace.folder / OUTPUT_FOLDERS["msleaks" if key.startswith("000") else "msmemscope"]
    script = "Application='python user_program.py'\n" + SAMPLES[key].filled(operators)
    seen = run_forked_under_tool(workplace, program, script=script, output=folder)
    thread = seen.run.report["thread"]
    looks = ["neg.default_1-{}_after", "add_.Tensor_1-{}_before", "add_.Tensor_1-{}_after", "abs.default_1-{}_before"]
    looks = [look.format("torch._ops.aten.neg.default_0") for look in [*looks, "abs.default_1-{}_after"]]
    files = watch_files(seen.run.output)
    assert set(files) == {f"0_{thread}_torch._ops.aten.{look}.bin" for look in looks}
    negative, raised = (struct.pack("6f", *(start - number for number in range(6))) for start in (-1, 0))
    expected = [negative, negative, raised, raised, raised]
    assert [files[f"0_{thread}_torch._ops.aten.{look}.bin"] for look in looks] == expected
    (path,) = seen.run.output.glob("msmemscope_*_ascend/config.json")
    assert json.loads(path.read_text(encoding="utf-8"))["watchConfig"] == {
        "start": "torch._ops.aten.neg.default", "outputId": 0, "end": "torch._ops.aten.abs.default", "fullContent": True,
        "isWatched": True,
    }  # fmt: skip
