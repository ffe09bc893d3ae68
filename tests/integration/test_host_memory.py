"""Host memory that grows outside of tensors is said to grow, with its bytes and its line."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl
import pytest

from msmemscope.analysis.host.host_ledger import account_for_host
from msmemscope.analysis.host.host_samples import NATIVE_MEMORY, NUMPY_ARRAYS, TENSORS
from msmemscope.formats.reading import load
from msmemscope.model.events import EventKind
from tests.support import tool
from tests.support.nightly import nightly
from tests.support.recordings import events_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import RunUnderTool
    from tests.support.targets import Builder

pytestmark = [pytest.mark.torch, pytest.mark.slow]

CALLS: Final = 3000
SERVER: Final = """
import ctypes, time
import numpy as np
import torch

torch.set_num_threads(1)
model = torch.nn.Linear(16, 16)
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
kept = []

def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096 / 2**20

def serve(request):
{work}

for request in range({calls}):
    model(torch.ones(1, 16))
    if request == 1:
        begin = resident()
    serve(request)
    time.sleep(0.0003)  # not faster than one sample per 512 KiB is taken
print(resident() - begin)
"""
FIRST_LINE_OF_WORK: Final = 18


@dataclass(frozen=True)
class Case:
    """The work of a server for each request."""

    work: tuple[str, ...]
    line: int
    """Which of them makes what stays, from 0."""
    what: str


GROWING: Final = {
    "strings": Case(("text = str(request).zfill(60_000)", "kept.append(text)"), 0, "Python objects"),
    "small objects": Case(("kept.append([float(request + k) for k in range(1_500)])",), 0, "Python objects"),
    "malloc": Case(("place = libc.malloc(60_000)", "ctypes.memset(place, 1, 60_000)"), 0, "native memory"),
    "arrays": Case(("array = np.full(7_500, float(request))", "kept.append(array)"), 0, "NumPy arrays"),
}
AT_NIGHT: Final = ("small objects", "arrays")
HEALTHY: Final = (
    "kept.append((str(request).zfill(200_000), np.full(25_000, float(request))))",
    "if len(kept) == 20:",
    "    kept.clear()",
)


def _served(folder: Path, work: tuple[str, ...], *options: str) -> tool.ToolRun:
    program, output = folder / "server.py", folder / "out"
    program.write_text(SERVER.format(work="\n".join(f"    {line}" for line in work), calls=CALLS))
    return tool.run([*tool.TOOL, f"--output={output}", *options, "--", sys.executable, program], output=output)


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=name, marks=[nightly] if name in AT_NIGHT else []) for name, case in GROWING.items()]
)
def test_growth_has_its_bytes_and_its_line(case: Case, tmp_path: Path) -> None:
    """Of strings, small objects, arrays, and what a C function allocates; the kernel's own figure is the truth."""
    run = _served(tmp_path, case.work)
    verdict = " ".join(run.stderr.split())
    line = FIRST_LINE_OF_WORK + case.line
    found = re.search(
        rf"msmemscope: host memory: ([\d.]+) MiB on cpu at \S*server\.py\({line}\): \S+, .* outside of tensors: "
        rf"about ([\d.]+) MiB of that line are alive, {case.what}",
        verdict,
    )
    assert found is not None, verdict
    truth = float(run.stdout)
    assert float(found[1]) == pytest.approx(truth, rel=0.1)
    assert float(found[2]) == pytest.approx(truth, rel=0.3)  # of 300 samples and more


def test_what_is_given_back_is_no_growth(tmp_path: Path) -> None:
    """A server that allocates and frees as much."""
    verdict = " ".join(_served(tmp_path, HEALTHY).stderr.split())
    assert f"nothing found: no leak over {CALLS:,} steps, no steady growth of host memory, no failed" in verdict


PARTS: Final = """
import ctypes, time
import numpy as np
import torch

torch.set_num_threads(1)
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
kept = []

def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096

for step in range(64):
    kept.append(torch.full((262144,), 1.0))
    kept.append([f"{step} {number} a text of some length" for number in range(10000)])
    kept.append(np.full(131072, 1.0))
    block = libc.malloc(1 << 20)
    ctypes.memset(block, 1, 1 << 20)
    model(torch.randn(8, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    print(resident())
    time.sleep(0.005)  # not faster than one sample per 512 KiB is taken
"""


def test_the_parts_add_up_to_what_the_kernel_says(tmp_path: Path) -> None:
    """64 MiB each of tensors, arrays and native memory, and a list of texts: at each moment little is unknown."""
    script = tmp_path / "parts.py"
    script.write_text(PARTS)
    run = tool.run([*tool.TOOL, f"--output={tmp_path / 'out'}", "--", sys.executable, script], output=tmp_path / "out")
    found = account_for_host(load(tmp_path / "out"))
    told = [int(line) for line in run.stdout.split()]
    assert found.peak_bytes == pytest.approx(max(told), rel=0.01)
    moments = found.course[np.linspace(0, found.course.height - 1, 10).astype(int)]
    shares = (moments["unknown_bytes"] / moments["resident_bytes"]).abs().to_numpy()
    assert shares.max() < 0.05
    parts = {part: (size / 2**20, (error or 0) / 2**20) for part, size, error, _ in found.parts.iter_rows()}
    assert parts[TENSORS][0] == pytest.approx(64, rel=0.02)
    for part in (NUMPY_ARRAYS, NATIVE_MEMORY):
        size, error = parts[part]
        assert abs(size - 64) < 4 * error
        assert error < 20
    made = found.lines.with_columns(line=pl.col("site").str.extract(r"parts\.py\((\d+)\)"))
    assert set(made["line"].head(3)) == {"20", "21", "22"}


GAPS: Final = """
import ctypes, threading
import torch

torch.set_num_threads(1)
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
end = threading.Event()

class Heap(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split())]

libc.mallinfo2.restype = Heap

def work(is_done):
    blocks = [libc.malloc(65536) for _ in range(64)]
    for block in blocks:
        ctypes.memset(block, 1, 65536)
    pin = libc.malloc(64)
    for block in blocks:
        libc.free(block)
    is_done.set()
    end.wait()  # and with it stays its arena

for step in range(50):
    is_done = threading.Event()
    threading.Thread(target=work, args=(is_done,)).start()
    is_done.wait()
    model(torch.randn(8, 64)).sum().backward()
    optimizer.step()
    print(libc.mallinfo2().fordblks)
    optimizer.zero_grad()
end.set()
"""


def test_what_the_c_library_keeps_is_named(tmp_path: Path) -> None:
    """All of it was freed, in an arena for each thread. The truth is what the program is told by the C library."""
    script = tmp_path / "gaps.py"
    script.write_text(GAPS)
    run = tool.run(
        [*tool.TOOL, f"--output={tmp_path / 'out'}", "--", sys.executable, script],
        output=tmp_path / "out",
        variables={"MALLOC_ARENA_MAX": "64"},
    )
    truth = [int(line) for line in run.stdout.split()]
    verdict = " ".join(run.stderr.split())
    found = re.search(
        r"msmemscope: host memory: ([\d.]+) MiB on cpu, [\d.]+ MiB per step, .*, (?:([\d.]+) MiB of it )?freed, and kept by",
        verdict,
    )
    assert found is not None, verdict
    # The whole growth alone is said where nearly all of it was freed.
    kept = pytest.approx((truth[-1] - truth[1]) / 2**20, rel=0.02 if found[2] else 0.05)
    assert float(found[2] or found[1]) == kept
    assert "malloc_trim(0)" in verdict
    steps = events_of(run.capture).filter(pl.col("kind") == int(EventKind.IMPLIED_STEP), pl.col("address") > 0)
    assert steps.height == len(truth)
    # Pages of a heap that are not in memory do not count: they are asked for a few times per second.
    assert (steps["address"].cast(pl.Int64) - pl.Series(truth)).abs().max() < 2 << 20


def test_addresses_of_functions_may_be_taken(
    target_builder: Builder, run_under_tool: RunUnderTool, run_alone: RunUnderTool
) -> None:
    """A program of fixed addresses, and a library, call by addresses that they took: each call counts, and once."""
    library = target_builder.part("loading/takes_addresses.c", "libtakes_addresses.so")
    program = target_builder.part(
        "loading/fixed_addresses.c", "fixed_addresses", "-fno-pie", "-no-pie", f"-Wl,-rpath,{library.parent}", library
    )
    run = run_under_tool([program], "--host=all")
    assert run.returncode == 0, run.stderr
    assert run.stdout == run_alone([program]).stdout == "addresses=equal\n"
    events = events_of(run.capture)
    sampled = events.filter(pl.col("kind") == int(EventKind.HOST_SAMPLE))["extra"].sum() / 2**20
    assert sampled == pytest.approx(128 - 8, abs=0.5)  # the first 8 MiB of such a program are not written


EVERY: Final = """
import ctypes
import torch
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
def native():
    return libc.malloc(3_000)
def text(number):
    return b"%2000d" % number
torch.ones(1)
places = [native() for _ in range(20_000)]
texts = [text(number) for number in range(30_000)]
dropped = [text(number) for number in range(5_000)]
del dropped
"""


def test_each_allocation_is_recorded_where_that_is_wanted(tmp_path: Path) -> None:
    """Exactly, with no error; what is freed does not count."""
    program, output = tmp_path / "program.py", tmp_path / "out"
    program.write_text(EVERY)
    run = tool.run([*tool.TOOL, f"--output={output}", "--host=all", "--", sys.executable, program], output=output)
    found = account_for_host(load(str(run.capture.directory)))
    lines = {row["site"].rpartition("/")[2]: row for row in found.lines.iter_rows(named=True)}
    each = sys.getsizeof(b"") + 2_000
    # That of the list comprehension stands elsewhere; the allocator of Python takes 16 bytes for nothing of these.
    assert (lines["program.py(8): native"]["peak_bytes"], lines["program.py(8): native"]["samples"]) == (
        60_000_000,
        20_000,
    )
    assert lines["program.py(10): text"]["samples"] == pytest.approx(35_000, abs=5_000)
    assert lines["program.py(10): text"]["peak_bytes"] == each * lines["program.py(10): text"]["samples"]
    errors = found.parts["peak_error_bytes"].drop_nulls().to_list()
    assert errors
    assert not any(errors)


@nightly
def test_without_samples_there_is_no_line(tmp_path: Path) -> None:
    """Where they are not wanted, nothing is redirected for them, and growth is found all the same."""
    run = _served(tmp_path, GROWING["strings"].work, "--host=off")
    verdict = " ".join(run.stderr.split())
    assert re.search(r"host memory: [\d.]+ MiB on cpu, .* whose allocations are not observed", verdict), verdict


LINKED: Final = """
import json, time

class Turn:
    def __init__(self, text, previous):
        self.text = text
        self.previous = previous

def resident():
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[1]) * 4096

latest = None
begin = resident()
for number in range(4000):
    latest = Turn(f"{number:07}" * 2500, latest)
    time.sleep(0.001)
print(json.dumps({"grown": resident() - begin}))
"""


def test_a_program_without_a_framework_is_judged_from_its_begin(tmp_path: Path) -> None:
    """Also the megabytes before its log began count. Objects that refer to each other are counted once, by their class."""
    script = tmp_path / "linked.py"
    script.write_text(LINKED)
    run = tool.run([*tool.TOOL, f"--output={tmp_path / 'out'}", "--", sys.executable, script], output=tmp_path / "out")
    verdict = " ".join(run.stderr.split())
    found = re.search(
        r"host memory: ([\d.]+) MiB on cpu at \S*linked\.py.*objects of Turn, .*, ([\d,]+) now, ([\d.]+) KiB each",
        verdict,
    )
    assert found is not None, verdict
    grown = json.loads(run.stdout)["grown"]
    assert float(found[1]) == pytest.approx(grown / 2**20, abs=3)
    assert 1000 < int(found[2].replace(",", "")) <= 4000
    assert float(found[3]) == pytest.approx(7 * 2500 / 1024, rel=0.05)


def test_a_handler_may_map_memory_in_the_middle_of_an_allocation(target_builder: Builder, tmp_path: Path) -> None:
    """Its sample asks the C library nothing: the thread may hold the lock that an answer needs."""
    library = target_builder.part("map_in_handler.c", "libmap_in_handler.so", "-pthread")
    code = f"import ctypes; print(ctypes.CDLL('{library}').allocate_among_signals(4) > 100)"
    run = tool.run(
        [*tool.TOOL, f"--output={tmp_path / 'out'}", "--", sys.executable, "-c", code],
        output=tmp_path / "out",
        timeout_s=60,
    )
    assert run.stdout == "True\n", run.stderr
    assert events_of(run.capture).filter(pl.col("kind") == int(EventKind.HOST_SAMPLE)).height > 100
