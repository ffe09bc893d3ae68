"""Watched memory of the CPU: who overwrote it, what is legitimate, and the files that are written."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from msmemscope.model.events import EventFlag, EventKind
from tests.support import tool
from tests.support.nightly import nightly
from tests.support.warm import run_observed
from tests.support.watch_checksum import hash64
from tests.support.watching import changes, checksums, watch_events

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

FAULTY = """
import ctypes, sys
import torch
import msmemscope

library = torch.library.Library("faulty", "DEF")
library.define("scale(Tensor x) -> Tensor")
fault = {"call": 0, "address": 0, "calls": 0, "bytes": 24}

def scale(x):
    fault["calls"] += 1
    if fault["calls"] == fault["call"]:
        ctypes.memset(fault["address"], 0xa5, fault["bytes"])
    return x * 2

library.impl("scale", scale, "CPU")
x = torch.ones(8)
"""
SCALE = "torch._ops.faulty.scale.default"

EVERYTHING_LEGITIMATE = """
import torch
import msmemscope
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Conv1d(4, 8, 3), nn.BatchNorm1d(8), nn.GELU(), nn.Flatten(), nn.LazyLinear(4))
net(torch.randn(2, 4, 16))
optimizers = [torch.optim.AdamW(net.parameters(), foreach=True), torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9)]
watched = {"weight": net[0].weight, "mean": net[1].running_mean, "view": net[4].weight[1:3, 2:7]}
if WATCHES:
    for name, tensor in watched.items():
        msmemscope.watcher.watch(tensor, name=name)
for step in range(3):
    loss = net(torch.randn(8, 4, 16)).square().mean() + net(torch.randn(8, 4, 16)).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    for optimizer in optimizers:
        optimizer.step()
    optimizers[0].zero_grad(set_to_none=bool(step % 2))
    with torch.no_grad():
        net[4].weight[1:3].mul_(0.9)
        net[4].weight.t()[3:5].add_(0.1)
        torch.add(net[0].bias, 1, out=net[0].bias)
        torch._foreach_add_(list(net.parameters()), 1e-3)
    cache = torch.zeros(4, 4)
    cache.index_copy_(0, torch.tensor([1, 2]), torch.randn(2, 4))
    cache.resize_(8, 8).fill_(1)
"""


def run_program(tmp_path: Path, text: str, *options: str) -> tool.ToolRun:
    """Run a program under the tool; its event log, its files of watched memory and its messages can be looked at."""
    program = tmp_path / "program.py"
    program.write_text(text)
    run = run_observed([program], *options, output=tmp_path / "output")
    assert run.returncode == 0, run.stderr
    return run


def run_anew(tmp_path: Path, text: str, *options: str) -> tool.ToolRun:
    """Run a program under the tool in a process that shares no memory with another one, and that has a summary."""
    program = tmp_path / "program.py"
    program.write_text(text)
    output = tmp_path / "output"
    words = (*tool.TOOL, f"--output={output}", "--device=cpu", *options, sys.executable, program)
    run = tool.run(words, output=output)
    assert run.returncode == 0, run.stderr
    return run


@pytest.mark.parametrize(
    "how",
    ["tensor", "address", "window", "auto"],
)
@pytest.mark.parametrize("call", [2, pytest.param(5, marks=nightly)])
def test_a_wrong_write_is_put_down_to_its_operator(tmp_path: Path, how: str, call: int) -> None:
    """However the memory was chosen, one change is found, and it names the operator, its call and the bytes."""
    watching = {
        "tensor": "msmemscope.watcher.watch(victim, name='test')",
        "address": "msmemscope.watcher.watch(victim.data_ptr(), length=4000, name='test')",
    }.get(how, "")
    program = f"""{FAULTY}
blocks = [torch.full((1000,), 1.0) for _ in range(6)]
victim = torch.sin(blocks[3])
fault.update(address=victim.data_ptr() + 100, call={call})
{watching}
for _ in range(6):
    torch.ops.faulty.scale(x)
torch.cos(x)
"""
    option = {"window": "--watch=torch._ops.aten.sin.default:0,torch._ops.aten.cos.default", "auto": "--watch=auto"}
    run = run_program(tmp_path, program, *filter(None, [option.get(how)]))
    (change,) = changes(run.capture)
    assert change.culprit == (SCALE, call)
    assert change.is_unexpected
    assert not change.flags & EventFlag.WRITES_UNKNOWN
    assert change.attributes["when"] == "during"
    assert (change.attributes["first"], change.attributes["last"]) == ("100", "123")
    assert change.attributes["changed_bytes"] == "24"
    assert change.attributes["watch"] == how
    assert change.attributes["before"] != change.attributes["after"]
    assert change.name == {"window": "torch._ops.aten.sin.default", "auto": ""}.get(how, "test")
    assert change.python_stack_id
    assert "program.py" in run.capture.python_stack_text(change.python_stack_id)
    assert change.block, "the block is known"


def test_a_write_between_operators_is_said_to_be_one(tmp_path: Path) -> None:
    """No operator is blamed; the ones before and after it are named."""
    program = f"""{FAULTY}
victim = torch.zeros(100)
msmemscope.watcher.watch(victim, name="test")
x.sin()
ctypes.memset(victim.data_ptr(), 1, 4)
x.cos()
"""
    (change,) = changes(run_program(tmp_path, program).capture)
    assert change.attributes["when"] == "between"
    assert change.attributes["previous"] == "torch._ops.aten.sin.default"
    assert change.culprit == ("torch._ops.aten.cos.default", 1)
    assert change.flags & EventFlag.WRITES_UNKNOWN


def test_a_write_before_the_first_operator_is_found(tmp_path: Path) -> None:
    """The memory is known from the moment from which it is watched."""
    program = f"""{FAULTY}
victim = torch.zeros(100)
msmemscope.watcher.watch(victim, name="test")
ctypes.memset(victim.data_ptr() + 8, 1, 4)
x.cos()
"""
    (change,) = changes(run_program(tmp_path, program).capture)
    assert change.attributes["when"] == "between"
    assert change.culprit == ("torch._ops.aten.cos.default", 1)
    assert (change.attributes["first"], change.attributes["last"]) == ("8", "11")


def test_legitimate_writes_of_watched_memory(tmp_path: Path) -> None:
    """Optimizers, running statistics, in-place operators and views: changes, every one of them allowed."""
    found = changes(run_program(tmp_path, "WATCHES = True\n" + EVERYTHING_LEGITIMATE).capture)
    assert {change.name for change in found} == {"weight", "mean", "view"}
    assert [change for change in found if change.is_unexpected] == []
    writers = {change.culprit[0] for change in found}
    assert {"torch._ops.aten.native_batch_norm.default", "torch._ops.aten._foreach_add_.Scalar"} <= writers


def test_automatic_watching_gives_no_false_report(tmp_path: Path) -> None:
    """Nothing is found in a clean run, and the log says how much was looked at."""
    run = run_program(tmp_path, "WATCHES = False\n" + EVERYTHING_LEGITIMATE, "--watch=auto")
    assert changes(run.capture) == []
    (coverage,) = run.capture.facts["watch.coverage"]
    figures = dict(part.split("=") for part in coverage.split(","))
    assert int(figures["operators_with_all_blocks"]) == int(figures["operators"]) > 100
    assert int(figures["most_bytes_at_once"]) <= int(figures["budget"])


def test_automatic_watching_with_less_than_it_needs(tmp_path: Path) -> None:
    """With a budget below what is alive, blocks take turns: the change is found later, and says since when it can be."""
    program = f"""{FAULTY}
blocks = [torch.zeros(1 << 18) for _ in range(12)]
fault.update(address=blocks[5].data_ptr() + 4096, call=14)
for _ in range(40):
    torch.ops.faulty.scale(x)
"""
    (change,) = changes(run_program(tmp_path, program, "--watch=auto", "--watch-budget=3M").capture)
    assert change.size == 1 << 20
    assert (change.attributes["first"], change.attributes["granularity"]) == ("4096", "1024")
    since, until = int(change.attributes["previous_call"]), change.culprit[1]
    assert since <= 14 <= until
    if change.attributes["exact"] == "1":
        assert change.culprit == (SCALE, 14)


def test_an_overrun_names_the_neighbour(tmp_path: Path) -> None:
    """An operator that writes the block behind its argument: the block before the victim is named, and is its own."""
    program = f"""{FAULTY}
library.define("fill(Tensor(a!) x) -> ()")
blocks = sorted((torch.zeros(16) for _ in range(50)), key=torch.Tensor.data_ptr)
# Those that are nearest to each other: nothing else lies between them.
first, second = min(zip(blocks, blocks[1:]), key=lambda pair: pair[1].data_ptr() - pair[0].data_ptr())

def fill(x):
    ctypes.memset(second.data_ptr(), 1, 8)

library.impl("fill", fill, "CPU")
torch.ops.faulty.fill(first)
print(f"first={{first.data_ptr()}} second={{second.data_ptr()}}")
"""
    run = run_program(tmp_path, program, "--watch=auto")
    (change,) = changes(run.capture)
    assert change.address == int(run.report["second"])
    assert change.culprit == ("torch._ops.faulty.fill.default", 1)
    assert int(change.attributes["neighbour_address"]) == int(run.report["first"])
    assert change.attributes["written_neighbour"] == "1"
    assert (change.attributes["first"], change.attributes["last"]) == ("0", "7")


def test_one_wrong_write_is_one_report(tmp_path: Path) -> None:
    """A write over megabytes, which are looked at in pieces."""
    program = f"""{FAULTY}
large = torch.full((2_500_000,), 1, dtype=torch.uint8)
fault.update(address=large.data_ptr() + 5000, call=2, bytes=2_200_000)
for _ in range(3):
    torch.ops.faulty.scale(x)
"""
    (change,) = changes(run_program(tmp_path, program, "--watch=auto").capture)
    assert change.culprit == (SCALE, 2)
    assert change.size == 2_500_000
    assert change.attributes["ranges"] == f"{5000 // 1024 * 1024}-{2_205_000 // 1024 * 1024 + 1023}"
    assert "more_blocks" not in change.attributes


def test_files_of_a_window(tmp_path: Path) -> None:
    """One file per look: after the first operator, before and after those that follow, up to the last one."""
    program = """
import torch, threading
a = torch.arange(24, dtype=torch.float32).reshape(4, 6)
b = torch.add(a, 1)
expected = b.clone()
b.t().mul_(2)
c = torch.sin(b)
d = torch.cos(b)
print(f"thread={threading.get_native_id()}")
"""
    options = "--watch=torch._ops.aten.add.Tensor:out0,torch._ops.aten.sin.default,full-content"
    run = run_program(tmp_path, program, options)
    thread, watched = run.report["thread"], "torch._ops.aten.add.Tensor_0"
    looks = ["add.Tensor_1", "clone.default_1", "t.default_1", "mul_.Tensor_1", "sin.default_1"]
    expected = {
        f"cpu_{thread}_torch._ops.aten.{look}-{watched}_{when}.bin"
        for look in looks
        for when in ("before", "after")
        if (look, when) != ("add.Tensor_1", "before")
    }
    files = {path.name: path.read_bytes() for path in (run.output / "watch_dump").iterdir()}
    assert set(files) == expected
    import torch

    ones = torch.arange(24, dtype=torch.float32) + 1
    for name, content in files.items():
        is_doubled = ("mul_.Tensor_1-" in name and "after" in name) or "sin" in name
        assert content == (ones * 2 if is_doubled else ones).numpy().tobytes(), name
    assert "at most" in run.stderr


def test_checksums_are_those_of_the_contents(tmp_path: Path) -> None:
    """A table per device; dump_nums holds for each tensor by itself; views have their elements in order."""
    program = """
import torch, msmemscope
a = torch.arange(3000, dtype=torch.int32).reshape(50, 60)
view, parameter = a.t()[7:9, ::2], torch.nn.Parameter(a.float())
msmemscope.watcher.watch(a, name="whole", dump_nums=3)
msmemscope.watcher.watch(view, name="view", dump_nums=2)
msmemscope.watcher.watch(parameter, name="gone", dump_nums=0)
del parameter
torch.ones(3)
a.add_(1)
"""
    run = run_program(tmp_path, program)
    import torch

    a = torch.arange(3000, dtype=torch.int32).reshape(50, 60)
    whole, view = hash64(a.numpy().tobytes()), hash64(a.t()[7:9, ::2].contiguous().numpy().tobytes())
    ones, add = "torch._ops.aten.ones.default_1", "torch._ops.aten.add_.Tensor_1"
    assert checksums(run.output) == [
        (f"{ones}-whole_0_before.bin", f"{whole:016x}"),
        (f"{ones}-view_0_before.bin", f"{view:016x}"),
        (f"{ones}-whole_0_after.bin", f"{whole:016x}"),
        (f"{ones}-view_0_after.bin", f"{view:016x}"),
        (f"{add}-whole_0_before.bin", f"{whole:016x}"),
    ]
    found = changes(run.capture)
    assert {change.name: change.culprit for change in found} == {
        "whole": ("torch._ops.aten.add_.Tensor", 1),
        "view": ("torch._ops.aten.add_.Tensor", 1),
    }
    assert "the memory of 'gone' was freed; it is watched no longer" in run.stderr.replace("\n    ", " ")


def test_older_checksum(tmp_path: Path) -> None:
    """The table can be compared with one that an older tool wrote."""
    program = """
import torch, msmemscope
msmemscope.watcher.watch(bytes_of := torch.tensor(list(b"123456789"), dtype=torch.uint8), name="digits")
torch.ones(3)
"""
    run = run_program(tmp_path, program, "--watch-checksum=crc64")
    assert {checksum for _, checksum in checksums(run.output)} == {"b86883e6fa710a9f"}


def test_beginnings_and_ends(tmp_path: Path) -> None:
    """Each watch has its two events, with the reason for its end; watching an address again replaces the watch."""
    program = """
import torch, msmemscope, numpy
import msleaks
a, b, c = torch.zeros(1000), torch.zeros(1000), torch.zeros(1000)
shared = torch.from_numpy(numpy.zeros(1000))
msmemscope.watcher.watch(a, name="a")
msmemscope.watcher.watch(a.data_ptr(), length=10, name="again")
msleaks.watcher.watch(b, name="b")
msmemscope.watcher.watch(c, name="c")
msmemscope.watcher.watch(shared, name="shared")
torch.ones(3)
msleaks.remove(a.data_ptr(), length=10)
del b, shared
torch.ones(3)
msmemscope.watcher.remove(torch.zeros(4))
"""
    run = run_program(tmp_path, program)
    events = watch_events(run.capture)
    started = [event.name for event in events if event.kind is EventKind.WATCH_START]
    ended = {event.name: event.attributes["reason"] for event in events if event.kind is EventKind.WATCH_STOP}
    assert started == ["a", "again", "b", "c", "shared"]
    assert ended == {"a": "replaced", "again": "removed", "b": "freed", "shared": "freed", "c": ended["c"]}
    assert ended["c"] in {"end", "freed"}
    assert re.search(r"watcher.remove: the memory at 0x[0-9a-f]+ is not watched", run.stderr)


def test_size_of_files_is_bounded(tmp_path: Path) -> None:
    """Contents over the limit are not written, and one line says so. Changes are found all the same."""
    program = f"""{FAULTY}
victim = torch.zeros(1 << 18)
fault.update(address=victim.data_ptr(), call=4)
msmemscope.watcher.watch(victim, name="large")
for _ in range(5):
    torch.ops.faulty.scale(x)
"""
    run = run_program(tmp_path, program, "--watch=torch._ops.aten.none.default,full-content", "--watch-max-size=3M")
    files = list((run.output / "watch_dump").iterdir())
    assert len(files) == 3
    assert sum(file.stat().st_size for file in files) == 3 << 20
    assert run.stderr.count("would be exceeded") >= 1
    assert [change.culprit for change in changes(run.capture)] == [(SCALE, 4)]


def test_threads_watch_together(tmp_path: Path) -> None:
    """Writes of one thread are legitimate also where another thread's operator finds them."""
    program = """
import threading, torch, msmemscope
tensors = [torch.zeros(5000) for _ in range(4)]
for number, tensor in enumerate(tensors):
    msmemscope.watcher.watch(tensor, name=f"t{number}", dump_nums=0)
def work(tensor):
    for _ in range(100):
        tensor.add_(1)
threads = [threading.Thread(target=work, args=(tensor,)) for tensor in tensors]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
    found = changes(run_program(tmp_path, program, "--watch=auto").capture)
    assert {change.name for change in found} == {"t0", "t1", "t2", "t3"}
    assert [change for change in found if change.is_unexpected] == []


BAD_CALLS = """
import torch, msmemscope
def tell(call):
    try:
        call()
    except (TypeError, ValueError) as error:
        print(f"kind={type(error).__name__} text={str(error).replace(' ', '_')}")
    else:
        print("kind=none text=none")
watch, tensor = msmemscope.watcher.watch, torch.zeros(4)
"""


CALLS = [
    ("watch(tensor)", "TypeError", "'name'"),
    ("watch(tensor, name=3)", "TypeError", "name must be str"),
    ("watch(tensor, name='')", "ConfigurationError", "empty"),
    ("watch(tensor, name='é' * 33)", "ConfigurationError", "66 bytes"),
    ("watch(tensor, name='x', dump_nums='2')", "TypeError", "dump_nums must be int"),
    ("watch(tensor.data_ptr(), name='x')", "TypeError", "needs length="),
    ("watch(tensor, length=4, name='x')", "TypeError", "address must be int"),
    ("watch(tensor.data_ptr(), length=0, name='x')", "ConfigurationError", "not a length"),
    ("watch(8, length=8, name='x')", "ConfigurationError", "cannot be read: '0x8'"),
    ("watch([1.0], name='x')", "TypeError", "cannot watch list"),
    ("watch(torch.empty(0), name='x')", "ConfigurationError", "no elements"),
    ("watch(torch.empty(4, device='meta'), name='x')", "ConfigurationError", "type meta"),
    ("watch(tensor.to_sparse(), name='x')", "ConfigurationError", "sparse or nested"),
    ("msmemscope.watcher.remove('x')", "TypeError", "cannot watch str"),
    ("watch(tensor.as_strided((2, 2), (2, 1)), name='x', dump_nums=-5)", "none", "none"),
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """The outcome of each call, in one program."""
    program = BAD_CALLS + "".join(f"tell(lambda: {call})\n" for call, _, _ in CALLS)
    return run_program(tmp_path_factory.mktemp("calls"), program).reports


@pytest.mark.parametrize("number", range(len(CALLS)), ids=[call for call, _, _ in CALLS])
def test_arguments(answers: list[dict[str, str]], number: int) -> None:
    """A call that cannot be watched is an error that says why. No such call is silent."""
    _, kind, words = CALLS[number]
    assert answers[number]["kind"] == kind
    assert words.replace(" ", "_") in answers[number]["text"]
