"""The code samples of the seed documents run as printed, on the virtual NPU, and do what the documents promise.

The samples are in the folder seed_samples. What they leave to the user (`train()`, a model, a path, `...`) is filled in.
Commands run in a shell as printed. By day other programs are forked after torch_npu was imported, where nothing that is
looked at depends on how a program starts.
"""

from __future__ import annotations

import contextlib
import csv
import json
import re
import sqlite3
import struct
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

import msmemscope
from tests.support import tool, warm
from tests.support.ascend import NotInstalledError, Observation, attributes, virtual_npu_environment
from tests.support.nightly import NIGHT, nightly
from tests.support.seed_samples import Workplace, read_samples
from tests.support.warm_process import WarmPython

pytestmark = pytest.mark.slow

SAMPLES = read_samples()

WITH_TORCH_NPU: Final = ("torch", "torch_npu")
KEPT_BYTES: Final = 1 << 20
C_BLOCK_BYTES: Final = (4 << 20) + 32
"""What the C sample takes on each device; the runtime asks the driver for 32 bytes more than the program."""
USER_CODE: Final = f"""\
import atexit
import time

import torch
import torch_npu

atexit.register(time.sleep, 0.3)  # autograd's thread aborts a process that ends right after a backward pass
kept = []

def train():
    weight = torch.ones(64, 64, device="npu", requires_grad=True)
    (weight @ torch.ones(64, device="npu")).sum().backward()
    kept.append(torch.empty({KEPT_BYTES - 512}, dtype=torch.uint8, device="npu"))

"""
"""What a program has before a sample; each call of train() keeps KEPT_BYTES, as the caching allocator rounds them."""


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    """Variables with which programs run torch_npu on the virtual NPU."""
    try:
        return virtual_npu_environment(with_torch=True)
    except NotInstalledError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def warm_python(environment: dict[str, str]) -> WarmPython:
    """A Python without the tool that has imported torch_npu."""
    return WarmPython(WITH_TORCH_NPU, variables=environment)


@pytest.fixture
def workplace(tmp_path: Path, environment: dict[str, str]) -> Workplace:
    """An empty folder with the commands."""
    return Workplace(tmp_path, environment)


@pytest.fixture(scope="module")
def c_program(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """The C sample of document 002, compiled; in its step it takes memory on devices 0, 2 and 7."""
    source = SAMPLES["002 mstx-c"].filled({
        "    ....\n": "    for (int device : {0, 2, 7}) {\n        void* block = nullptr;\n"
        "        aclrtSetDevice(device);\n        aclrtMalloc(&block, 4 << 20, ACL_MEM_MALLOC_HUGE_FIRST);\n    }\n    aclrtSetDevice(0);\n"
    })  # fmt: skip
    cann = Path(environment["ASCEND_HOME_PATH"])
    program = tmp_path_factory.mktemp("c") / "marks"
    libraries = [f"-L{cann / 'lib64'}", "-lascendcl", "-lms_tools_ext", f"-Wl,-rpath-link,{cann / 'lib64'}"]
    command = ["g++", "-x", "c++", "-", "-x", "none", f"-I{cann / 'include'}", "-rdynamic", *libraries]
    compiled = subprocess.run([*command, "-o", str(program)], input=source, capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr
    return program


def run_python(
    workplace: Workplace, text: str, command: str = "", output: Path | None = None, **options: Any
) -> Observation:
    """Run a program, behind a command line of the tool if one is given."""
    workplace.write("user_program.py", text)
    return workplace.shell(f"{command} python user_program.py", output=output, **options)


def run_forked(workplace: Workplace, text: str, warm_python: WarmPython, output: Path | None = None) -> Observation:
    """Run a program without a command of the tool; by day it is forked after torch_npu was imported."""
    if NIGHT:
        return run_python(workplace, text, output=output)
    program = workplace.write("user_program.py", text)
    output = output or workplace.folder / "memscopeDumpResults"
    run = tool.warm_run(warm_python, [program], None, output=output, folder=workplace.folder)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    return Observation(run)


def words_of(workplace: Workplace, script: str) -> list[str]:
    """What the lines of a shell say behind the command of the tool, but for the program, which they start with python."""
    printed = 'msmemscope() { printf \'%s\\0\' "$@"; }\nmsleaks() { msmemscope "$@"; }\n'
    words = workplace.shell(printed + script).run.stdout.split("\0")
    place = words.index("python")
    return words[:place] + words[place + 2 : -1]


def run_forked_under_tool(
    workplace: Workplace, text: str, *options: str, script: str = "", output: Path | None = None
) -> Observation:
    """Run a program behind `msmemscope OPTIONS`; by day it is forked from one under the tool that has imported torch_npu.

    `script` has the lines of a shell that do it as printed; by day a shell makes options of them.
    """
    if NIGHT:
        command = script or f"msmemscope {' '.join(options)} python user_program.py"
        workplace.write("user_program.py", text)
        return workplace.shell(command, output=output)
    program = workplace.write("user_program.py", text)
    run = warm.run_with_results(
        [program],
        words_of(workplace, script) if script else options,
        output=output or workplace.folder / "memscopeDumpResults",
        variables=workplace.variables,
        modules=WITH_TORCH_NPU,
        changes={},
        timeout_s=tool.TIMEOUT_S,
    )
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    return Observation(run)


def new_blocks(observation: Observation, device: int = 0) -> list[dict[str, Any]]:
    """The allocations of torch_npu's pool that happened while events were collected."""
    rows = observation.of(device, event="MALLOC", event_type="PTA")
    return [row for row in rows if "shadow" not in row["attributes"]]


def names_of(rows: list[dict[str, Any]]) -> list[str]:
    """Column Name, without the quotation marks of marks."""
    return [row["Name"].strip('"') for row in rows]


def test_every_sample_has_its_test() -> None:
    """No sample of the documents is left out here."""
    text = Path(__file__).read_text(encoding="utf-8")
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


# --- document 002: the command line; document 001: its analyses

STEPS: Final = """
print("arguments", sys.argv[1:])
for step in range(1, 5):
    number = mstx.range_start("step start", None)
    mstx.mark("test")
    train()
    mstx.range_end(number)
"""
STEPS_PROGRAM: Final = f"import sys\nimport mstx\n{USER_CODE}{STEPS}".replace(
    "train()\n    mstx", "train()\n    torch.npu.synchronize()\n    mstx"
)
STEPS_WITHOUT_TORCH: Final = f"""\
import ctypes
import sys
import mstx

runtime = ctypes.CDLL("libascendcl.so")
runtime.aclrtSetDevice(0)

def train():
    assert runtime.aclrtMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t({KEPT_BYTES}), 0) == 0

{STEPS}"""
"""The same for what has nothing to do with torch, which takes seconds to import."""


@pytest.mark.parametrize("key", ["001 online-leaks", pytest.param("001 offline-leaks-command", marks=nightly)])
def test_plain_command(workplace: Workplace, warm_python: WarmPython, key: str) -> None:
    """Without an option: every event of the pools, and the marks that leak analysis needs, in a CSV file.

    In it are the leaks: what was allocated between the first two marks and not freed before the third.
    """
    workplace.write("user_program.py", STEPS_PROGRAM + "print(f'address={kept[0].data_ptr():#018x}')\n")
    seen = workplace.shell("Application='python user_program.py'\n" + SAMPLES[key].text)
    assert len(seen.run.captures) == 1
    kept = [row for row in new_blocks(seen) if int(row["attributes"]["size"]) == KEPT_BYTES]
    assert len(kept) == 4
    assert names_of(seen.of(0, event="MSTX", event_type="Mark")) == ["test"] * 4
    (dump,) = seen.run.capture.directory.glob("device_0/dump/memscope_dump_*.csv")
    sample = SAMPLES["001 offline-leaks"].filled({"user/memscope.csv": str(dump)})
    printed = run_forked(workplace, sample, warm_python).run.stdout
    leaks = [line for line in printed.splitlines() if line.startswith("Direct Pytorch Caching memory pool leak of ")]
    assert [line.partition(" leak of ")[2].partition(" in ")[0] for line in leaks] == [
        f"1.0 Mb(s) at {seen.run.report['address']}"
    ]


def test_script_command(workplace: Workplace) -> None:
    """The recommended way: the program is started by a script."""
    workplace.write("user_program.py", STEPS_PROGRAM if NIGHT else STEPS_WITHOUT_TORCH)
    workplace.write("user.sh", "python user_program.py --epochs 2\n")
    seen = workplace.shell(SAMPLES["002 command-script"].filled({"[options]": "--steps=1,2,3 --data-format=csv"}))
    assert "arguments ['--epochs', '2']" in seen.run.stdout
    assert names_of(seen.of(0, event="MSTX", event_type="Mark")) == ["test"] * 3, "steps 1 to 3 of 4"


@nightly
def test_program_command(workplace: Workplace) -> None:
    """Behind `--` everything belongs to the program, whatever it looks like."""
    workplace.write("user_program.py", STEPS_PROGRAM)
    placeholders = {"[options]": "--steps=2", "<prog_name>": "python", "[prog_options]": "user_program.py --steps=7 -v"}
    seen = workplace.shell(SAMPLES["002 command-program"].filled(placeholders))
    assert "arguments ['--steps=7', '-v']" in seen.run.stdout
    assert names_of(seen.of(0, event="MSTX", event_type="Mark")) == ["test"]


@pytest.mark.parametrize(
    "key", [pytest.param("001 task-queue", marks=nightly), pytest.param("001 launch-blocking", marks=nightly)]
)
def test_exports_before_the_command(workplace: Workplace, key: str) -> None:
    """With torch_npu's own switches the program is observed as without."""
    workplace.write("user_program.py", USER_CODE + "train()\ntorch.npu.synchronize()\n")
    seen = workplace.shell(f"{SAMPLES[key].text}msmemscope python user_program.py\n")
    assert [row for row in new_blocks(seen) if int(row["attributes"]["size"]) == KEPT_BYTES]


def test_comparison_of_two_steps(workplace: Workplace) -> None:
    """Options behind the program are ours: one step each, with its kernels; and a table of where they differ."""
    paths = [workplace.folder / name for name in ("base", "compared")]
    for path, step in zip(paths, ("2", "3"), strict=True):
        placeholders = {
            "[options]": f"--output={path}",
            "${Application}": "python user_program.py",
            "Required Step": step,
        }
        script = SAMPLES["001 compare-collect"].filled(placeholders)
        seen = run_forked_under_tool(workplace, STEPS_PROGRAM, script=script, output=path)
        assert names_of(seen.of(0, event="MSTX", event_type="Mark")) == ["test"]
        assert seen.of(0, event="KERNEL_LAUNCH", event_type="KERNEL_LAUNCH")
        assert not seen.of(0, event="OP_LAUNCH")
    workplace.shell(SAMPLES["001 compare"].filled({"path1,path2": ",".join(map(str, paths))}))
    (table,) = workplace.folder.glob("memscopeDumpResults/compare/memory_compare_*.csv")
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert len(rows) > 1


def test_events_for_inefficient_memory(workplace: Workplace) -> None:
    """The analysis brings the events that it needs: accesses and operators."""
    script = "Application='python user_program.py'\n" + SAMPLES["001 inefficient"].text
    seen = run_forked_under_tool(workplace, USER_CODE + "train()\n", script=script)
    assert {row["Event Type"] for row in seen.of(0, event="ACCESS")} >= {"READ", "WRITE"}
    assert seen.of(0, event="OP_LAUNCH", event_type="ATEN_START")


# --- document 002: mstx


def test_steps_marked_in_python(workplace: Workplace) -> None:
    """Ranges named "step start" are there, each with its end, and are the steps."""
    sample = SAMPLES["002 mstx-python"].filled({"    ....\n    ....\n": "    train()\n    train()\n"})
    seen = run_forked_under_tool(workplace, USER_CODE + sample, "--steps=1,15")
    starts = seen.of(0, event="MSTX", event_type="Range_start")
    assert names_of(starts) == ["step start"] * 2
    assert len(seen.of(0, event="MSTX", event_type="Range_end")) == 2
    kept = [row for row in new_blocks(seen) if int(row["attributes"]["size"]) == KEPT_BYTES]
    assert len(kept) == 4


def test_marks_of_a_c_program(workplace: Workplace, c_program: Path) -> None:
    """The C sample: its mark, its range, and the memory between them."""
    assert SAMPLES["002 mstx-c"].text.count("mstx") == 4
    seen = workplace.shell(f"msmemscope --device=npu {c_program}")
    rows = seen.of(0)
    marks = [(row["Event Type"], row["Name"].strip('"')) for row in rows if row["Event"] == "MSTX"]
    assert [kind for kind, _ in marks] == ["Mark", "Range_start", "Range_end"]
    assert [name for _, name in marks[:2]] == ["MarkA", "step start"]
    place = {row["Event Type"]: row["ID"] for row in rows if row["Event"] == "MSTX"}
    blocks = [row for row in rows if row["Event"] == "MALLOC" and int(row["attributes"]["size"]) == C_BLOCK_BYTES]
    assert [place["Range_start"] < row["ID"] < place["Range_end"] for row in blocks] == [True]


# --- document 002, table 4: examples of options

ALLOC_AND_FREE: Final = 1 + 2


def watch_config(start: str, end: str) -> dict[str, object]:
    """What config.json says of watched memory whose contents are written, of all outputs."""
    return {"start": start, "outputId": 0xFFFFFFFF, "end": end, "fullContent": True, "isWatched": True}


EXPECTED_CONFIGURATION: Final[dict[str, dict[str, object]]] = {
    "--steps=1,2,3": {"SelectedStepList": {"stepCount": 3, "stepIdList": [1, 2, 3, 0, 0]}},
    "--device=npu": {"collectAllNpu": True, "npuSlots": (1 << 32) - 1},
    "--device=npu:2,npu:7": {"collectAllNpu": False, "npuSlots": (1 << 2) + (1 << 7)},
    "--level=0": {"levelType": 1},
    "--events=alloc,free,launch": {"eventType": ALLOC_AND_FREE + 4},
    "--call-stack=python": {"enablePyStack": True, "pyStackDepth": 50, "enableCStack": False},
    "--call-stack=c:20,python:10": {"enablePyStack": True, "pyStackDepth": 10, "cStackDepth": 20},
    "--collect-mode=immediate": {"collectMode": 0},
    "--analysis=leaks,decompose": {"analysisType": 1 + 2, "eventType": ALLOC_AND_FREE + 4 + 8},
    "--data-format=db": {"dataFormat": 1},
    "--output=/home/projects/output": {},
    "--events=alloc": {"eventType": ALLOC_AND_FREE},
    "--events=free": {"eventType": ALLOC_AND_FREE},
    "--events=access": {"eventType": ALLOC_AND_FREE + 8},
    "--watch=token0/layer0/module0/op0,token0/layer0/module0/op1,full-content": {
        "watchConfig": watch_config("token0/layer0/module0/op0", "token0/layer0/module0/op1")
    },
    "--watch=op0,op1,full-content": {"watchConfig": watch_config("op0", "op1")},
}
"""Option to what config.json says of it; the couplings are those of the table."""

OPTIONS: Final = [line for key in ("000 watch-option", "002 options") for line in SAMPLES[key].text.splitlines()]
INPUT_ALONE: Final = "--input=/home/projects/input1,/home/projects/input2"


def test_input_without_comparison(workplace: Workplace) -> None:
    """Document 001: both options go together, one alone has no effect; so it is refused."""
    assert INPUT_ALONE in OPTIONS
    for alone in (f"{INPUT_ALONE} true", "--compare"):
        run = workplace.shell(f"msmemscope {alone}", expected_status=2).run
        assert "--compare" in run.stderr
        assert "--input" in run.stderr


@pytest.mark.parametrize("option", [one for one in OPTIONS if one != INPUT_ALONE])
def test_options(workplace: Workplace, c_program: Path, option: str) -> None:
    """Each example of an option is accepted and does what the table says."""
    output = workplace.folder / "memscopeDumpResults"
    if option.startswith("--output="):
        output = workplace.folder / "output"
        option = option.replace("/home/projects/output", str(output))
    workplace.write("user.sh", f"{c_program}\n")
    # Without a shell, so that by day the tool is forked: test_script_command has the whole command.
    words = [*tool.TOOL, option, "bash", "user.sh"]
    run = tool.run(words, output=output, variables=workplace.variables, folder=workplace.folder)
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    seen = Observation(run)
    (path,) = output.glob("msmemscope_*_ascend/config.json")
    written = json.loads(path.read_text(encoding="utf-8"))
    expected = EXPECTED_CONFIGURATION[option.replace(str(workplace.folder), "/home/projects")]
    assert {name: written[name] for name in expected} == expected
    assert written["outputDir"] == str(output)
    devices = {"2", "7"} if "npu:2" in option else {"0", "2", "7"}
    files = {path.parents[1].name for path in output.glob("msmemscope_*_ascend/device_*/dump/memscope_dump_*")}
    assert files == {f"device_{device}" for device in devices}
    if not option.startswith("--data-format=db"):
        blocks = [attributes(row["Attr"])["size"] for row in seen.of(2, event="MALLOC", event_type="HAL")]
        assert str(C_BLOCK_BYTES) in blocks


# --- documents 000 and 001: memory block watch

OUTPUT_FOLDERS: Final = {"msmemscope": "memscopeDumpResults", "msleaks": "leaksDumpResults"}
"""Command to the folder that its documents name."""
WATCHED_ACTIONS: Final = """\
test_tensor.add_(1)
doubled = test_tensor * 2
"""
"""What stands for the three points of a sample: an operator that writes the tensor, and one that reads it."""


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
