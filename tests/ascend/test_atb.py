"""ATB's operators, kernels and tensors, from a stand-in for libatb.so in all layouts that are in use.

The stand-in is compiled for both layouts of std::string, and for both layouts of the pack that an operator gets. Whatever
is recorded, its results must be those of a run without the tool.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.support import tool
from tests.support.nightly import nightly
from tests.support.watching import changes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.ascend.conftest import Observe
    from tests.support.ascend import Observation

SOURCES: Final = Path(__file__).parent / "fake_atb"
FLAGS: Final = ("-Wall", "-Wextra", "-Werror", "-g", "-O1", "-fPIC", "-I", SOURCES)
EVERYTHING: Final = ("--device=npu", "--events=alloc,free,launch,access", "--level=op,kernel")
LAYOUT = "dtype:{dtype},format:{format},shape:[2,3,]"


@dataclass(frozen=True)
class FakeAtb:
    """The stand-in and its driver, built for one layout."""

    host: Path
    driver: Path

    def command(self, *, inputs: int = 3, executions: int = 2) -> tuple[object, ...]:
        """Return the command line of the driver."""
        return (self.host, self.driver, inputs, executions)


@pytest.fixture(scope="module")
def build_folder(request: pytest.FixtureRequest) -> Path:
    """Return a folder for what is compiled, which is kept between test runs."""
    if shutil.which("gcc") is None or shutil.which("g++") is None:
        pytest.skip("no gcc and g++ on PATH")
    assert request.config.cache is not None
    sources = sorted(path for path in SOURCES.iterdir() if path.is_file())
    texts = [Path(__file__).read_bytes(), *(path.read_bytes() for path in sources)]
    return request.config.cache.mkdir("fake_atb") / hashlib.sha256(b"".join(texts)).hexdigest()[:20]


def _compile(*command: object) -> None:
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


LAYOUTS: Final = [(1, False), (1, True), (0, False), (0, True)]
"""The C++ interface of the compiler, and whether the structures are those of an older release."""
BY_DAY: Final = [(1, False), (0, True)]
"""Both interfaces and both structures."""


def _layout_id(layout: tuple[int, bool]) -> str:
    return f"abi_{layout[0]}, {'older' if layout[1] else 'newer'} pack"


@pytest.fixture(scope="module")
def build_fake_atb(build_folder: Path) -> Callable[[int, bool], FakeAtb]:
    """Build the stand-in in a layout, once for each."""
    return functools.cache(functools.partial(_build, build_folder))


def _build(build_folder: Path, abi: int, older: bool) -> FakeAtb:  # noqa: FBT001 - a layout is given as it stands in the list
    folder = build_folder / f"{abi}{int(older)}"
    if not folder.exists():
        build_folder.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=build_folder) as scratch:
            made = Path(scratch) / "made"
            made.mkdir()
            _build_into(made, abi, older=older)
            with contextlib.suppress(OSError):  # another worker was faster: the same programs
                made.rename(folder)
    return FakeAtb(folder / "host", folder / "libdriver.so")


def _build_into(made: Path, abi: int, *, older: bool) -> None:
    """Compile into a folder that may be moved afterwards."""
    layout = [f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
    layout += ["-DFAKE_ATB_OLDER_PACK", "-DFAKE_ATB_OLDER_MKI"] if older else []
    library = made / "libatb.so"
    shared = ("g++", "-std=c++17", *FLAGS, "-shared", *layout)
    _compile(
        *shared, "-Wl,-z,now", "-Wl,-soname,libatb.so", SOURCES / "fake_atb.cpp", SOURCES / "pools.cpp", "-o", library, "-ldl"
    )  # fmt: skip
    # RPATH, which comes before the libatb.so of the environment's search path.
    rpath = ("-Wl,--disable-new-dtags", "-Wl,-rpath,$ORIGIN")
    _compile(*shared, "-Wl,-z,lazy", SOURCES / "driver.cpp", library, *rpath, "-o", made / "libdriver.so", "-ldl")
    _compile("gcc", *FLAGS, SOURCES / "host.c", "-o", made / "host", "-ldl")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(layout, marks=[] if layout in BY_DAY else [nightly], id=_layout_id(layout)) for layout in LAYOUTS
    ],
)
def every_layout(build_fake_atb: Callable[[int, bool], FakeAtb], request: pytest.FixtureRequest) -> FakeAtb:
    """The stand-in in each of its layouts, for what is read from its structures."""
    return build_fake_atb(*request.param)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(layout, marks=[nightly] if layout != LAYOUTS[0] else [], id=_layout_id(layout))
        for layout in LAYOUTS
    ],
)
def fake_atb(build_fake_atb: Callable[[int, bool], FakeAtb], request: pytest.FixtureRequest) -> FakeAtb:
    """The stand-in in one layout, for what does not depend on it; at night in each."""
    return build_fake_atb(*request.param)


def _run_alone(
    fake_atb: FakeAtb, environment: dict[str, str], output: Path, *, executions: int = 2, **variables: str
) -> dict[str, str]:
    command = fake_atb.command(executions=executions)
    run = tool.run(command, output=output, variables={**environment, **variables})
    assert run.returncode == 0, run.stderr
    return run.reports[0]


def _rows(observation: Observation) -> list[dict[str, Any]]:
    """Return what ATB did on the device, in its order."""
    return [row for row in observation.of(0) if row["Event"] in {"OP_LAUNCH", "KERNEL_LAUNCH", "ACCESS"}]


def _reported(rows: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(row["Event Type"], row["Name"]) for row in rows]


def test_operators_kernels_and_tensors(
    every_layout: FakeAtb, observe_c: Observe, cann_environment: dict[str, str], output: Path
) -> None:
    """Every operator and kernel has its start and its end, with the tensors of both times between them."""
    observation = observe_c(EVERYTHING, every_layout.host, *every_layout.command(executions=1)[1:])
    rows = _rows(observation)
    report, addresses = observation.run.reports
    process = rows[0]["Process Id"]

    def kernels() -> list[tuple[str, str]]:
        adding = [("UNKNOWN", "0_AddF32Kernel")] * 3 + [("WRITE", "0_AddF32Kernel")]
        copying = [("UNKNOWN", "1_CopyKernel"), ("WRITE", "1_CopyKernel")]
        return [
            ("KERNEL_START", "0_AddF32Kernel"), *adding, ("KERNEL_END", "0_AddF32Kernel"), *adding,
            ("KERNEL_START", "1_CopyKernel"), *copying, ("KERNEL_END", "1_CopyKernel"), *copying,
        ]  # fmt: skip

    def operator(name: str, inside: list[tuple[str, str]]) -> list[tuple[str, str]]:
        tensors = [("UNKNOWN", name)] * 3 + [("WRITE", name)]
        return [("ATB_START", name), *tensors, *inside, ("ATB_END", name), *tensors]

    expected = operator("ElewiseOperation", kernels())
    expected += operator("GraphOperation", operator("NodeOperation", kernels()))
    expected += operator("x" * 254, [])  # a name is cut there
    expected += operator("ThrowingOperation", [])[:5]  # an exception passes through, and there is no end
    assert _reported(rows) == expected

    first = rows[0]["attributes"]
    assert first == {
        "path": f"0_{process}/0/0_ElewiseOperation",
        "workspace_ptr": addresses["workspace"],
        "workspace_size": "3072",
    }
    kernel = next(row for row in rows if row["Name"] == "1_CopyKernel" and row["Event Type"] == "KERNEL_END")
    assert kernel["attributes"] == {"path": f"0_{process}/0/0_ElewiseOperation/1_CopyKernel/after"}

    of_operator = next(row for row in rows if row["Event Type"] == "WRITE")
    assert int(of_operator["Ptr"], 16) == int(addresses["output"], 16)
    assert of_operator["Attr"].endswith("type:ATB," + LAYOUT.format(dtype="ACL_FLOAT", format="ACL_FORMAT_ND") + "}")
    assert of_operator["attributes"]["size"] == "24"
    of_kernel = next(row for row in rows if row["Event Type"] == "WRITE" and row["Name"] == "1_CopyKernel")
    assert int(of_kernel["Ptr"], 16) == int(addresses["output"], 16)
    assert of_kernel["Attr"].endswith(
        "type:ATB," + LAYOUT.format(dtype="TENSOR_DTYPE_FLOAT", format="TENSOR_FORMAT_ND") + "}"
    )
    assert of_kernel["attributes"]["size"] == "24"

    assert report == _run_alone(every_layout, cann_environment, output, executions=1)


@pytest.mark.parametrize(
    "options, kinds",
    [
        (("--events=launch", "--level=op"), {"ATB_START", "ATB_END"}),
        (("--events=launch", "--level=kernel"), {"KERNEL_START", "KERNEL_END"}),
        (("--events=alloc,access",), {"UNKNOWN", "WRITE"}),
        (("--events=alloc",), set()),
        (("--events=launch", "--level=op,kernel", "--collect-mode=deferred"), set()),
        (("--events=launch,access", "--level=op,kernel", "--device=npu:1"), set()),
        (("--events=launch,access", "--level=op,kernel", "--device=cpu"), set()),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_only_what_was_asked_for(
    fake_atb: FakeAtb,
    observe_c: Observe,
    cann_environment: dict[str, str],
    output: Path,
    options: tuple[str, ...],
    kinds: set[str],
) -> None:
    """Levels, events, devices and the time of collection choose; the program's results do not depend on it."""
    device = () if any(option.startswith("--device") for option in options) else ("--device=npu",)
    observation = observe_c((*device, *options), fake_atb.host, *fake_atb.command()[1:])
    reported = {kind for kind, _ in _reported(_rows(observation))}
    assert reported == kinds
    assert observation.run.reports[0] == _run_alone(fake_atb, cann_environment, output)


def test_another_tool_keeps_its_answers(
    fake_atb: FakeAtb, observe_c: Observe, cann_environment: dict[str, str], output: Path
) -> None:
    """Where kernels are not collected, what another tool answers and saves is as without us."""
    expected = _run_alone(fake_atb, cann_environment, output, FAKE_ATB_SAVE="1")
    assert int(expected["saved_launches"]) > 0
    assert int(expected["saved_packs"]) > 0
    for options in (("--events=alloc",), ("--events=launch", "--level=op")):
        observation = observe_c(
            ("--device=npu", *options), fake_atb.host, *fake_atb.command()[1:], variables={"FAKE_ATB_SAVE": "1"}
        )
        assert observation.run.reports[0] == expected


def test_nothing_is_saved_while_kernels_are_collected(fake_atb: FakeAtb, observe_c: Observe) -> None:
    """The answers that make ATB show its kernels must not make it copy tensors."""
    observation = observe_c(EVERYTHING, fake_atb.host, *fake_atb.command()[1:], variables={"FAKE_ATB_SAVE": "1"})
    report = observation.run.reports[0]
    assert report["saved_launches"] == report["saved_packs"] == "0"
    assert report["executed"] == "8"


def test_more_tensors_than_the_pack_has_room_for(every_layout: FakeAtb, observe_c: Observe) -> None:
    """From the 65th on the tensors of an operator lie on the heap."""
    observation = observe_c(EVERYTHING, every_layout.host, *every_layout.command(inputs=100, executions=1)[1:])
    of_operator = [row for row in _rows(observation) if row["Name"] == "ElewiseOperation"]
    assert sum(row["Event Type"] == "UNKNOWN" for row in of_operator) == 200
    assert sum(row["Event Type"] == "WRITE" for row in of_operator) == 2
    assert len({row["Ptr"] for row in of_operator if row["Event Type"] == "UNKNOWN"}) == 100


@pytest.mark.parametrize("pools", ["all", "framework"])
def test_tensors_name_their_blocks(fake_atb: FakeAtb, observe_c: Observe, pools: str) -> None:
    """A tensor belongs to the block that holds it: of ATB where it announces its memory, else of the framework."""
    observation = observe_c(EVERYTHING, fake_atb.host, *fake_atb.command()[1:], variables={"FAKE_ATB_POOLS": pools})
    addresses = observation.run.reports[1]
    blocks = {row["attributes"]["allocation_id"]: row for row in observation.of(0, event="MALLOC")}
    accesses = [row for row in _rows(observation) if row["Event"] == "ACCESS"]

    def block_of(access: dict[str, Any]) -> tuple[str, int]:
        block = blocks[access["attributes"]["allocation_id"]]
        assert block["ID"] < access["ID"]
        return block["Event Type"], int(block["Ptr"], 16)

    workspace = int(addresses["workspace"], 16)
    between = workspace + 1024
    of_workspace = [row for row in accesses if int(row["Ptr"], 16) == between]
    assert of_workspace
    expected = ("ATB", between) if pools == "all" else ("PTA", workspace)
    assert {block_of(row) for row in of_workspace} == {expected}

    start = int(addresses["input"], 16)
    of_framework = [row for row in accesses if int(row["Ptr"], 16) == start]
    assert of_framework
    assert {block_of(row) for row in of_framework} == {("PTA", start)}


@pytest.mark.parametrize("level", ["op", "op,kernel"])
def test_watching_an_output(fake_atb: FakeAtb, observe_c: Observe, level: str) -> None:
    """From the operator that makes it to the end of another one, named by their paths; kernels too where they are asked for."""
    window = "--watch=0/0_ElewiseOperation:out0,0/1_GraphOperation,full-content"
    observation = observe_c(
        ("--device=npu", f"--level={level}", window), fake_atb.host, *fake_atb.command(executions=1)[1:]
    )
    folder = observation.run.output / "watch_dump"
    graph = "0.1_GraphOperation"
    operators = [graph, f"{graph}.0_NodeOperation"]
    if level != "op":
        operators += [f"{graph}.0_NodeOperation.{kernel}" for kernel in ("0_AddF32Kernel", "1_CopyKernel")]
    looks = {f"{name}_1-0.0_ElewiseOperation_0_{when}.bin" for name in operators for when in ("before", "after")}
    looks.add("0.0_ElewiseOperation_1-0.0_ElewiseOperation_0_after.bin")
    assert {path.name.split("_", 2)[2] for path in folder.iterdir()} == looks
    assert {path.stat().st_size for path in folder.iterdir()} == {24}
    assert [change for change in changes(observation.run.capture) if change.is_unexpected] == []
