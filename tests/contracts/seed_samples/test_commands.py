"""The commands of the seed documents and their marks: they run in a shell as printed, on the virtual NPU.

Options, the program and paths are filled in.
"""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.support import tool
from tests.support.ascend import Observation, attributes
from tests.support.nightly import NIGHT, nightly
from tests.support.seed_samples import (
    KEPT_BYTES,
    SAMPLES,
    USER_CODE,
    Workplace,
    names_of,
    new_blocks,
    run_forked,
    run_forked_under_tool,
)
from tests.support.warm_process import WarmPython

pytestmark = pytest.mark.slow

C_BLOCK_BYTES: Final = (4 << 20) + 32
"""The bytes that the C sample takes on each device. The runtime asks the driver for 32 bytes more than the program."""
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


# --- document 002: the command line; document 001: its analyses


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
    """The entry of config.json for watched memory whose contents are written, for all outputs."""
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
