"""`import msmemscope` and its calls work wherever Python runs, and never cost the program its own work."""

from __future__ import annotations

import sys
import venv
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import msmemscope
from msmemscope import _native
from msmemscope.model.events import EventKind
from tests.support import tool
from tests.support.nightly import NIGHT, nightly
from tests.support.recordings import assert_sound, count, events_of, shadows, unmatched_frees
from tests.support.targets import environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.targets import Builder
    from tests.support.tool import ToolRun

BYTES = 1_000_064
"""Size of the tensors that programs make; nothing else has it."""

EVERY_CALL = """
import msmemscope
from msmemscope import describe, tracer
msmemscope.config(device="cpu", events="alloc,free,launch")
msmemscope.start()
with describe.describer(owner="label"), msmemscope.RecordFunction("part"), msmemscope.collect():
    msmemscope.step()
tracer.start()
msmemscope.take_snapshot(name="now")
tracer.stop()
msmemscope.stop()
"""
"""Uses everything that needs no torch."""


class Allocator(NamedTuple):
    """The code with which a program gets an allocator, and allocates."""

    load: str
    """A line."""
    allocate: str
    """A call that allocates BYTES bytes."""

    def one(self, size: int = BYTES) -> str:
        """The call for a size."""
        return self.allocate.replace("BYTES", str(size))

    def program(self) -> str:
        """A program that allocates once while it is observed."""
        return f"""
import msmemscope
{self.load}
msmemscope.start()
kept = {self.one()}
msmemscope.stop()
print("result=1")
"""


TORCH = Allocator("import torch", "torch.empty(BYTES, dtype=torch.uint8)")

ONE_TENSOR = TORCH.program()


@pytest.fixture
def allocator(target_builder: Builder) -> Allocator:
    """For what does not depend on torch: its stand-in by day, which is loaded in no time, at night torch itself."""
    if NIGHT:
        return TORCH
    load = (
        f"import ctypes; library = ctypes.CDLL({str(target_builder.library())!r}); "
        "library.fake_tensor_allocate.restype = ctypes.c_void_p; "
        "library.fake_tensor_allocate.argtypes = [ctypes.c_size_t]"
    )
    return Allocator(load, "library.fake_tensor_allocate(BYTES)")


@pytest.fixture
def one_tensor(allocator: Allocator) -> str:
    """A program for what does not depend on torch."""
    return allocator.program()


@pytest.fixture
def package_alone(tmp_path: Path) -> Path:
    """A folder from which msmemscope can be imported, and nothing else."""
    package = tmp_path / "alone" / "msmemscope"
    package.mkdir(parents=True)
    sources, built = Path(msmemscope.__file__).parent, Path(_native.__file__).parent
    for entry in {
        **{path.name: path for path in built.iterdir()},
        **{path.name: path for path in sources.iterdir()},
    }.values():
        (package / entry.name).symlink_to(entry)
    return package.parent


def run_code(
    code: str,
    folder: Path,
    *flags: str,
    python: str | Path = sys.executable,
    variables: Mapping[str, str] | None = None,
    behind: str = "",
    timeout_s: float = tool.TIMEOUT_S,
) -> ToolRun:
    """Run Python code in a folder; results are expected in the default place there.

    Args:
        code: The program.
        folder: The current directory.
        flags: Flags of the interpreter.
        python: The interpreter.
        variables: Changes of the environment.
        behind: Words after the command in the line of the shell: redirections.
        timeout_s: Seconds after which the test fails.
    """
    program = ["bash", "-c", f'cd "$0" && exec "$@" {behind}', folder, python, *flags, "-c", code]
    return succeed(tool.run(program, output=folder / "memscopeDumpResults", variables=variables, timeout_s=timeout_s))


def succeed(run: ToolRun) -> ToolRun:
    """Assert that a program ended well."""
    assert run.returncode == 0, f"{run.stdout}\n{run.stderr}"
    return run


def assert_recorded(run: ToolRun) -> None:
    """Assert that the tensor of the program is there, and its dump."""
    events = events_of(run.capture)
    assert_sound(events)
    assert count(events, EventKind.MALLOC, size=BYTES) == 1
    (dump,) = run.capture.directory.glob("device_cpu/dump/memscope_dump_*.csv")
    assert str(BYTES) in dump.read_text(encoding="utf-8")


# --- what is installed


@pytest.mark.parametrize("flags", [pytest.param(("-S",), marks=nightly), ("-S", "-I"), ("-S", "-OO")], ids="".join)
def test_nothing_but_the_standard_library(package_alone: Path, tmp_path: Path, flags: tuple[str, ...]) -> None:
    """Every call works without torch and numpy, and loads neither; in isolated mode and without docstrings too."""
    check = "import sys; print('loaded=' + '/'.join(sorted({'numpy', 'torch', 'polars', 'rich'} & set(sys.modules))))"
    code = f"import sys; sys.path.insert(0, {str(package_alone)!r})\n{EVERY_CALL}\n{check}"
    run = run_code(code, tmp_path, *flags)
    assert run.report == {"loaded": ""}
    events = events_of(run.capture)
    assert (
        count(events, EventKind.START_TRACE)
        == count(events, EventKind.STOP_TRACE)
        == count(events, EventKind.STEP)
        == 1
    )
    assert count(events, EventKind.SNAPSHOT) == 1
    assert count(events, EventKind.FUNCTION_CALL) >= 1
    assert "Traceback" not in run.stderr


def test_an_environment_without_our_dependencies(package_alone: Path, tmp_path: Path) -> None:
    """Where tables cannot be read, one line says so at the end; the event log stays, and the program's exit status."""
    venv.create(tmp_path / "empty", with_pip=False, symlinks=True)
    run = run_code(
        EVERY_CALL, tmp_path, python=tmp_path / "empty/bin/python", variables={"PYTHONPATH": str(package_alone)}
    )
    assert "Traceback" not in run.stderr
    printed = [line for line in run.stderr.splitlines() if line.startswith("msmemscope: ")]
    assert any(" is not installed" in line for line in printed), run.stderr
    assert count(events_of(run.capture), EventKind.SNAPSHOT) == 1


@pytest.mark.torch
def test_torch_without_an_npu(tmp_path: Path) -> None:
    """The cpu is what is observed then, without any choice."""
    assert_recorded(run_code(ONE_TENSOR, tmp_path))


# --- when it is imported


@pytest.mark.torch
def test_a_running_interpreter(tmp_path: Path) -> None:
    """Blocks allocated after the import exist at start(). Older blocks are not known, and their end invents nothing."""
    code = f"""
import torch
old = torch.empty({BYTES + 64}, dtype=torch.uint8)
import msmemscope
alive = torch.empty({BYTES}, dtype=torch.uint8)
gone = torch.empty({BYTES + 128}, dtype=torch.uint8)
del gone
msmemscope.start()
del old
msmemscope.stop()
"""
    events = events_of(run_code(code, tmp_path).capture)
    assert_sound(events)
    existing = shadows(events, EventKind.MALLOC)
    assert BYTES in existing["size"]
    assert not set(events["size"]) & {BYTES + 64, BYTES + 128}
    assert unmatched_frees(events) == 0
    assert count(events, EventKind.FREE, size=BYTES) == 1, "when the interpreter ends"


@pytest.mark.torch
@pytest.mark.parametrize(
    "again",
    [
        "reload",
        "other name",
        "anew",
    ],
)
def test_imports_again(tmp_path: Path, one_tensor: str, again: str) -> None:
    """Reloaded, under its older name, or with all its modules forgotten, it goes on with the same recording."""
    how = {
        "reload": "import importlib; importlib.reload(msmemscope)",
        "other name": "import msleaks as msmemscope",
        "anew": "import sys\nfor name in [name for name in sys.modules if name.startswith('msmemscope')]:\n"
        "    del sys.modules[name]\nimport msmemscope",
    }[again]
    code = f"import msmemscope\n{'import torch' if NIGHT else ''}\nmsmemscope.config(events='alloc,free')\n{how}\n{one_tensor}"
    assert_recorded(run_code(code, tmp_path, timeout_s=60))


# --- where it runs


@pytest.mark.torch
def test_a_thread_that_is_not_the_main_thread(tmp_path: Path, one_tensor: str) -> None:
    """Imported, started and stopped there."""
    indented = one_tensor.replace("\n", "\n    ")
    code = f"import threading\ndef work():\n    {indented}\nthread = threading.Thread(target=work)\nthread.start()\nthread.join()"
    run = run_code(code, tmp_path)
    assert_recorded(run)
    assert run.report == {"result": "1"}


@pytest.mark.torch
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_multiprocessing(tmp_path: Path, allocator: Allocator, method: str) -> None:
    """A child has a recording of its own: forked, it goes on collecting; started anew, once it says start()."""
    (tmp_path / "program.py").write_text(
        f"""
import multiprocessing
import os
import msmemscope
{allocator.load}

def work(queue):
    msmemscope.start()
    kept = {allocator.one()}
    msmemscope.stop()
    queue.put(os.getpid())

if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    kept = {allocator.one(BYTES + 64)}
    msmemscope.start()
    queue = context.Queue()
    child = context.Process(target=work, args=(queue,))
    child.start()
    child_id = queue.get()
    child.join()
    msmemscope.stop()
    print(f"parent={{os.getpid()}} child={{child_id}} status={{child.exitcode}}")
""",
        encoding="utf-8",
    )
    command = ["bash", "-c", 'cd "$0" && exec "$@"', tmp_path, sys.executable, "program.py"]
    run = succeed(tool.run(command, output=tmp_path / "memscopeDumpResults"))
    assert run.report["status"] == "0"
    (parent,) = run.captures_of(run.report["parent"])
    (child,) = run.captures_of(run.report["child"])
    for capture, size in ((parent, BYTES + 64), (child, BYTES)):
        events = events_of(capture)
        assert_sound(events)
        assert count(events, EventKind.MALLOC, size=size) == 1


@pytest.mark.torch
@pytest.mark.filterwarnings("default")
def test_a_notebook(tmp_path: Path, allocator: Allocator) -> None:
    """In a Jupyter kernel, cell by cell; results are written when the kernel is shut down."""
    pytest.importorskip("ipykernel", reason="ipykernel is not installed in this environment")
    manager = pytest.importorskip(
        "jupyter_client.manager", reason="jupyter_client is not installed in this environment"
    )
    # ipykernel behaves otherwise where it sees that variable.
    variables = {name: value for name, value in environment().items() if name != "PYTEST_CURRENT_TEST"}
    kernel, client = manager.start_new_kernel(kernel_name="python3", cwd=str(tmp_path), env=variables)
    kernel.shutdown_wait_time = 120.0  # after which it kills the kernel, results written or not
    shown: list[str] = []

    def collect_output(message: dict[str, object]) -> None:
        content = message["content"]
        assert isinstance(content, dict)
        shown.append(str(content.get("text") or content.get("traceback") or ""))

    try:
        for cell in (
            f"import msmemscope\n{allocator.load}",
            f"before = {allocator.one(100_032)}",
            "msmemscope.start()",
            f"kept = {allocator.one()}",
            "msmemscope.stop(); print('over')",
        ):
            reply = client.execute_interactive(cell, timeout=120, output_hook=collect_output)
            assert reply["content"]["status"] == "ok", shown
    finally:
        client.stop_channels()
        kernel.shutdown_kernel()
    assert "over" in "".join(shown)
    run = tool.run(["true"], output=tmp_path / "memscopeDumpResults")
    assert_recorded(run)
    assert 100_032 in shadows(events_of(run.capture), EventKind.MALLOC)["size"]


# --- how it ends


@pytest.mark.torch
@pytest.mark.parametrize("order", ["before", "after"])
def test_handlers_at_exit(tmp_path: Path, one_tensor: str, order: str) -> None:
    """stop(), step() and start() may be called while the interpreter shuts down, whichever handler comes first."""
    handler = """
import atexit
@atexit.register
def finish():
    import msmemscope
    msmemscope.step()
    msmemscope.stop()
    msmemscope.start()
    msmemscope.stop()
    print("finished=1")
"""
    # Of the two orders, one with torch by day too: it has handlers and threads of its own.
    program = ONE_TENSOR if order == "before" else one_tensor
    start = program.replace("msmemscope.stop()", "")
    run = run_code(handler + start if order == "before" else start + handler, tmp_path)
    assert run.reports[-1] == {"finished": "1"}
    assert "Traceback" not in run.stderr
    assert_recorded(run)


@pytest.mark.torch
def test_objects_that_die_last(tmp_path: Path, one_tensor: str) -> None:
    """Labels, snapshots and stop() in __del__ of an object that the interpreter destroys at its very end."""
    code = f"""{one_tensor.replace("msmemscope.stop()", "")}
from msmemscope import describe
class Last:
    def __del__(self, msmemscope=msmemscope, describer=describe.describer):
        with describer(owner="last"):
            msmemscope.stop()
import sys
sys.last_object = Last()
"""
    run = run_code(code, tmp_path)
    assert "Traceback" not in run.stderr
    assert_recorded(run)


# --- what the environment lacks


@pytest.mark.torch
def test_a_directory_that_cannot_be_written(tmp_path: Path, one_tensor: str) -> None:
    """Nothing can be recorded in the current directory: one line says so, and the program goes on."""
    run = run_code(one_tensor, Path("/proc"))
    assert run.report == {"result": "1"}
    printed = [line for line in run.stderr.splitlines() if line.startswith("msmemscope: ")]
    assert printed, run.stderr
    assert printed[0].startswith("msmemscope: recording stopped: creating the capture's folder: ")
    assert "Traceback" not in run.stderr


@pytest.mark.torch
def test_a_directory_that_is_gone(tmp_path: Path, one_tensor: str) -> None:
    """The current directory was removed while the program ran in it; an absolute output works all the same."""
    work = tmp_path / "work"
    work.mkdir()
    output = tmp_path / "memscopeDumpResults"
    # torch itself cannot be imported there
    leave = f"import os\n{'import torch' if NIGHT else ''}\nos.rmdir(os.getcwd())\n"
    settle = f"msmemscope.config(output={str(output)!r})\nmsmemscope.start()"
    run = run_code(leave + one_tensor.replace("msmemscope.start()", settle), work)
    assert run.report == {"result": "1"}
    assert_recorded(tool.run(["true"], output=output))


@pytest.mark.torch
def test_without_a_home(tmp_path: Path, one_tensor: str) -> None:
    """Neither HOME nor USER nor a temporary directory is set."""
    command = ["bash", "-c", 'cd "$0" && exec env -u HOME -u USER -u LOGNAME -u TMPDIR "$@"', tmp_path]
    run = tool.run([*command, sys.executable, "-c", one_tensor], output=tmp_path / "memscopeDumpResults")
    assert_recorded(succeed(run))


@pytest.mark.torch
@pytest.mark.parametrize(
    "closed", [pytest.param("<&-", marks=nightly), pytest.param(">&-", marks=nightly), "2>&-", "<&- >&- 2>&-"]
)
def test_closed_streams(tmp_path: Path, one_tensor: str, closed: str) -> None:
    """No file of the recording takes the number of a stream, and nothing fails because nobody can be told."""
    assert_recorded(run_code(one_tensor.rpartition("print")[0], tmp_path, behind=closed))
    assert [path.name for path in tmp_path.iterdir()] == ["memscopeDumpResults"]


@pytest.mark.torch
def test_streams_of_the_program(tmp_path: Path, one_tensor: str) -> None:
    """sys.stdout and sys.stderr are objects of the program, without a descriptor: results are written all the same."""
    assert_recorded(
        run_code(f"import io, sys\nsys.stdout, sys.stderr = io.StringIO(), io.StringIO()\n{one_tensor}", tmp_path)
    )
