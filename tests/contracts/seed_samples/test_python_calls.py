"""The Python samples of the seed documents run as printed, on the virtual NPU, and do what the documents promise.

The tests fill in the parts that the samples leave to the user: `train()`, a model, a path, `...`.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

import msmemscope
from tests.support.nightly import nightly
from tests.support.seed_samples import (
    KEPT_BYTES,
    SAMPLES,
    USER_CODE,
    Workplace,
    names_of,
    new_blocks,
    run_forked,
    run_forked_under_tool,
    run_python,
)
from tests.support.warm_process import WarmPython

pytestmark = pytest.mark.slow


def test_every_sample_has_its_test() -> None:
    """No sample of the documents is left out in this folder."""
    text = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert [key for key in SAMPLES if f'"{key}"' not in text] == []
    assert len(SAMPLES) == 32


# --- document 002: collection via Python APIs


def check_collected_database(output: Path, stderr: str) -> None:
    """Check what the first sample of document 002 promises: events in a database, stacks, owners, START and STOP."""
    (path,) = output.glob("msmemscope_*_ascend/device_0/dump/memscope_dump_*.db")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        rows = [dict(row) for row in connection.execute("SELECT * FROM memscope_dump ORDER BY ID")]
    kinds = Counter((row["Event"], row["Event Type"]) for row in rows)
    assert kinds["SYSTEM", "START_TRACE"] == kinds["SYSTEM", "STOP_TRACE"] == 1
    assert kinds["OP_LAUNCH", "ATEN_START"] == kinds["OP_LAUNCH", "ATEN_END"] > 0
    assert not [kind for kind in kinds if kind[0] == "KERNEL_LAUNCH"], "level 0 is operators"
    blocks = [row for row in rows if (row["Event"], row["Event Type"]) == ("MALLOC", "PTA")]
    new = [(row, json.loads(row["Attr"])) for row in blocks if "shadow" not in json.loads(row["Attr"])]
    (kept,) = [(row, values) for row, values in new if int(values["size"]) == KEPT_BYTES]
    assert kept[1]["owner"].startswith("PTA"), "decompose"
    frames = kept[0]["Call Stack(Python)"].strip('"\n').split("\n")
    assert frames[0].endswith("): train"), "nothing of the tool stands before the program's own line"
    assert all(len(row["Call Stack(Python)"].strip('"\n').split("\n")) <= 5 for row, _ in new)
    assert all(0 < len(row["Call Stack(C)"].strip('"\n').split("\n")) <= 10 for row, _ in new)


def test_collection(workplace: Workplace, warm_python: WarmPython) -> None:
    """config(), start(), stop(): a database with operators and blocks, their owners and both stacks."""
    output = workplace.folder / "results"
    sample = SAMPLES["002 collect"].filled({"/home/projects/output": str(output)})
    run = run_forked(workplace, USER_CODE + sample, warm_python, output).run
    check_collected_database(output, run.stderr)


@nightly
def test_collection_with_preloaded_libraries(workplace: Workplace) -> None:
    """The same after the exports of document 002, with all five libraries."""
    libraries = ["ascend_kernel_hook", "ascend_mstx_hook", "atb_abi_0_hook", "atb_abi_1_hook", "leaks_ascend_hal_hook"]
    printed = "${memscope_install_path}/lib64/{so_name}"
    entries = ":".join(
        printed.format(memscope_install_path="{memscope_install_path}", so_name=f"lib{name}.so") for name in libraries
    )
    exports = SAMPLES["002 preload"].filled({f"{printed}:{printed}": entries})
    output = workplace.folder / "results"
    sample = SAMPLES["002 collect"].filled({"/home/projects/output": str(output)})
    place = f"memscope_install_path={Path(msmemscope.__file__).parent}\n"
    run = run_python(workplace, USER_CODE + sample, f"{place}{exports}", output=output).run
    check_collected_database(output, run.stderr)


def test_trace(workplace: Workplace, warm_python: WarmPython) -> None:
    """tracer.start() and stop(): a file of the thread with the calls in between."""
    run = run_forked(workplace, USER_CODE + SAMPLES["002 tracer"].text + "train()\n", warm_python)
    (call,) = workplace.traced_calls("): train")
    assert call["file"].startswith(f"python_trace_{call['Thread Id']}_"), run.run.stderr
    assert set(call) == {"FuncInfo", "StartTime(ns)", "EndTime(ns)", "Thread Id", "Process Id", "file"}
    assert 0 < int(call["StartTime(ns)"]) <= int(call["EndTime(ns)"])


@pytest.mark.parametrize(
    ("key", "after", "calls"),
    [
        pytest.param("002 record-code", "", 1, id="code", marks=nightly),
        pytest.param("002 record-function", "forward_pass(input_data)\nforward_pass(input_data)\n", 2, id="function"),
    ],
)
def test_calls_that_the_program_names(
    workplace: Workplace, warm_python: WarmPython, key: str, after: str, calls: int
) -> None:
    """RecordFunction as context manager and as decorator: a row of the trace each time."""
    prepared = 'model = torch.nn.Linear(8, 8).npu()\ninput_data = torch.ones(8, device="npu")\n'
    run_forked(workplace, USER_CODE + prepared + SAMPLES[key].text + after, warm_python)
    rows = [row for row in workplace.traced_calls("forward_pass") if row["FuncInfo"].strip('"') == "forward_pass"]
    assert len(rows) == calls
    assert all(0 < int(row["StartTime(ns)"]) <= int(row["EndTime(ns)"]) for row in rows)


def test_snapshot(workplace: Workplace, warm_python: WarmPython) -> None:
    """take_snapshot() needs neither start() nor stop(), and tells what torch_npu tells."""
    say = (
        'import torch_npu\nprint(f"reserved={torch.npu.memory_reserved()} allocated={torch.npu.memory_allocated()}")\n'
    )
    seen = run_forked(workplace, USER_CODE + "train()\n" + SAMPLES["002 snapshot"].text + say, warm_python)
    (row,) = seen.of(0, event="SNAPSHOT", event_type="SNAPSHOT")
    assert names_of([row]) == ["Memory Snapshot"]
    assert row["attributes"]["reserved"] == seen.run.report["reserved"]
    assert row["attributes"]["allocated"] == seen.run.report["allocated"]
    assert 0 < int(row["attributes"]["free"]) < int(row["attributes"]["total"])
    assert set(seen.rows) == {"0"}


def test_snapshot_parameters(workplace: Workplace, warm_python: WarmPython) -> None:
    """A number, a list, a tuple and a name; without a device, all that the program uses."""
    prepared = 'import msmemscope\nkept += [torch.ones(9, device="npu:0"), torch.ones(9, device="npu:1")]\n'
    seen = run_forked(workplace, USER_CODE + prepared + SAMPLES["002 snapshot-parameters"].text, warm_python)
    assert names_of(seen.of(0, event="SNAPSHOT")) == [*["Memory Snapshot"] * 3, "test_tuple"]
    assert names_of(seen.of(1, event="SNAPSHOT")) == [*["Memory Snapshot"] * 2, "test_tuple"]


def test_steps(workplace: Workplace, warm_python: WarmPython) -> None:
    """step() ends a step: ten rows, and in each step what train() keeps."""
    seen = run_forked(workplace, USER_CODE + SAMPLES["002 steps"].text, warm_python)
    steps = seen.of(0, event="SYSTEM", event_type="STEP")
    assert names_of(steps) == [str(number) for number in range(1, 11)]
    kept = [row["ID"] for row in new_blocks(seen) if int(row["attributes"]["size"]) == KEPT_BYTES]
    ends = [row["ID"] for row in steps]
    assert len(kept) == 10
    assert all(block < end for block, end in zip(kept, ends, strict=True))
    assert all(end < block for end, block in zip(ends, kept[1:], strict=False))


# --- document 001: labels


@pytest.mark.parametrize(
    ("key", "label", "before", "placeholders", "after"),
    [
        pytest.param(
            "001 describe-function",
            "test1",
            "",
            {"    pass": '    return torch.empty(999424, dtype=torch.uint8, device="npu")'},
            "labelled = train1()\n",
            id="decorator",
        ),
        pytest.param(
            "001 describe-code",
            "test2",
            'def train2():\n    kept.append(torch.empty(999424, dtype=torch.uint8, device="npu"))\n',
            {},
            "labelled = kept[-1]\n",
            id="with",
            marks=nightly,
        ),
        pytest.param(
            "001 describe-enter-exit",
            "test3",
            'def train3():\n    kept.append(torch.empty(999424, dtype=torch.uint8, device="npu"))\n',
            {},
            "labelled = kept[-1]\n",
            id="enter and exit",
            marks=nightly,
        ),
        pytest.param("001 describe-tensor", "test4", "", {}, "labelled = t\n", id="tensor"),
    ],
)
def test_labels(
    workplace: Workplace, key: str, label: str, before: str, placeholders: dict[str, str], after: str
) -> None:
    """The owner of exactly those blocks that are described ends in the label."""
    program = USER_CODE + "train()\n" + before + SAMPLES[key].filled(placeholders) + after
    program += 'train()\nprint(f"address={labelled.data_ptr():#018x}")\n'
    seen = run_forked_under_tool(workplace, program, "--device=npu", "--analysis=decompose")
    owners = {row["Ptr"]: row["attributes"]["owner"].split("@") for row in new_blocks(seen)}
    assert len(owners) > 1
    assert {pointer for pointer, owner in owners.items() if label in owner} == {seen.run.report["address"]}
    assert owners[seen.run.report["address"]][0] == "PTA"
    assert owners[seen.run.report["address"]][-1] == label
