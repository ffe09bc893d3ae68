"""The magic in a real IPython shell, and in a real notebook."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.warm import WITH_TORCH, run_python

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.tool import ToolRun

pytestmark = pytest.mark.torch
pytest.importorskip("IPython", reason="IPython is not installed in this environment")

SHELL = """
import json, os, sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.displaypub import CapturingDisplayPublisher
from traitlets.config import Config

settings = Config()
settings.HistoryManager.enabled = False
shell = InteractiveShell.instance(config=settings, colors="nocolor")
shell.display_pub = CapturingDisplayPublisher()
for cell in json.load(open(sys.argv[1])):
    result = shell.run_cell(cell, store_history=True)
    error = result.error_in_exec or result.error_before_exec
    shown = [output["data"] for output in shell.display_pub.outputs]
    shell.display_pub.outputs.clear()
    from msmemscope.capture.session import session
    state = {"error": error and f"{type(error).__name__}: {error}", "shown": shown, "result": repr(result.result),
             "is_tracing": session.is_tracing}
    print("STATE" + json.dumps(state), flush=True)
"""


def run_cells(tmp_path: Path, *cells: str) -> tuple[list[dict[str, Any]], ToolRun]:
    """Run cells in a shell of their own, after the extension was loaded and torch imported; one state per cell."""
    (tmp_path / "cells.json").write_text(
        json.dumps(["%load_ext msmemscope.integrations.ipython\nimport torch", *cells])
    )
    variables = {"TMPDIR": str(tmp_path), "IPYTHONDIR": str(tmp_path / "ipython")}
    words = ("-c", SHELL, tmp_path / "cells.json")
    run = run_python(words, output=tmp_path / "output", variables=variables, modules=(*WITH_TORCH, "IPython", "polars"))
    assert run.returncode == 0, run.stderr
    assert not list(tmp_path.glob("msmemscope_*")), "the scratch folder was left behind"
    states = [json.loads(line[5:]) for line in run.stdout.splitlines() if line.startswith("STATE")]
    assert states[0]["error"] is None
    return states[1:], run


def test_a_cell_shows_its_peak_and_what_it_left(tmp_path: Path) -> None:
    """By source line, as In[n] and the number that the user sees; the last expression is shown as ever."""
    cell = """%%msmemscope --top=1
kept = torch.empty(1 << 20, dtype=torch.uint8)
def scratch():
    return torch.empty(2 << 20, dtype=torch.uint8).numel()
scratch()"""
    (first, second), run = run_cells(tmp_path, cell, "%%msmemscope\ndel kept")
    assert first["error"] is None
    assert "2097152" in run.stdout
    (shown,) = first["shown"]
    assert shown["text/plain"].splitlines() == [
        "msmemscope: memory in In[2]",
        "cpu (HOST): peak 3.00 MiB, before 0 bytes; allocated 3.00 MiB in 2 blocks",
        "  in use at the peak",
        "    2.00 MiB  1 block  In[2], line 4: scratch",
        "    1.00 MiB  1 block  In[2], line 2",
        "  left by the cell: 1.00 MiB in 1 block",
        "    1.00 MiB  1 block  In[2], line 2",
    ]
    assert "<code>kept = torch.empty(1 &lt;&lt; 20, dtype=torch.uint8)</code>" in shown["text/html"]
    assert "<b>cpu (HOST)</b>: peak 3.00 MiB" in shown["text/html"]
    (shown,) = second["shown"]
    assert shown["text/plain"].splitlines() == [
        "msmemscope: memory in In[3]",
        "cpu (HOST): peak 1.00 MiB, before 1.00 MiB; allocated 0 bytes in 0 blocks",
        "  in use at the peak",
        "    1.00 MiB  1 block  In[2], line 2",
        "  freed by the cell, of what was there before: 1.00 MiB in 1 block",
        "    1.00 MiB  1 block  In[2], line 2",
        "  left by the cell: nothing",
    ]
    assert "Freed by the cell, of what was there before: 1.00 MiB in 1 block" in shown["text/html"]
    assert not first["is_tracing"]
    assert not list(tmp_path.glob("memscopeDumpResults*"))


def test_one_statement(tmp_path: Path) -> None:
    """In the namespace of the user."""
    (first, second), _ = run_cells(tmp_path, "%msmemscope --device cpu values = torch.ones(256)", "values.numel()")
    (shown,) = first["shown"]
    assert "left by the cell: 1.00 KiB in 1 block\n    1.00 KiB  1 block  In[2], line 1" in shown["text/plain"]
    assert second["result"] == "256"


def test_exceptions_go_their_way(tmp_path: Path) -> None:
    """The cell has failed, collection is off, what ran before holds; what it did is shown above the traceback."""
    cell = "%%msmemscope\nbefore = torch.ones(256)\nprint('in the cell')\n1 / 0\nbefore = 6"
    (failed, after), run = run_cells(tmp_path, cell, "before.numel()")
    assert failed["error"] == "ZeroDivisionError: division by zero"
    assert not failed["is_tracing"]
    (shown,) = failed["shown"]
    assert shown["text/plain"].splitlines()[-2:] == [
        "  left by the cell, with what the traceback holds: 1.00 KiB in 1 block",
        "    1.00 KiB  1 block  In[2], line 2",
    ]
    assert "out of memory" not in shown["text/plain"]
    assert "----> 4 1 / 0" in run.stdout
    assert after["result"] == "256"


def test_a_cell_that_runs_out_of_memory_shows_what_filled_it(tmp_path: Path) -> None:
    """The line that failed, and what was in use then, not at the peak; also where the cell catches the exception."""
    cell = """%%msmemscope
kept = torch.empty(1 << 20, dtype=torch.uint8)
torch.empty(4 << 20, dtype=torch.uint8)
def too_much():
    held = torch.empty(2 << 20, dtype=torch.uint8)
    return torch.empty(1 << 60, dtype=torch.uint8)
too_much()"""
    caught = """%%msmemscope
try:
    torch.empty(1 << 60, dtype=torch.uint8)
except RuntimeError:
    pass"""
    (failed, after), _ = run_cells(tmp_path, cell, caught)
    assert "can't allocate memory" in failed["error"]
    (shown,) = failed["shown"]
    assert shown["text/plain"].splitlines() == [
        "msmemscope: memory in In[2]",
        "out of memory on cpu: 1.00 EiB asked for at In[2], line 6: too_much",
        "cpu (HOST): peak 5.00 MiB, before 0 bytes; allocated 7.00 MiB in 3 blocks",
        "  in use when memory ran out: 3.00 MiB in 2 blocks",
        "    2.00 MiB  1 block  In[2], line 5: too_much",
        "    1.00 MiB  1 block  In[2], line 2",
        "  left by the cell, with what the traceback holds: 3.00 MiB in 2 blocks",
        "    2.00 MiB  1 block  In[2], line 5: too_much",
        "    1.00 MiB  1 block  In[2], line 2",
    ]
    assert "<p><b>out of memory on cpu" in shown["text/html"]
    assert after["error"] is None
    assert "asked for at In[3], line 3\n" in after["shown"][0]["text/plain"]


def test_analyses_answer_below_the_cell(tmp_path: Path) -> None:
    """Those that were asked for, with what they need collected, and with the names of cells; after a failure, too."""
    cell = """%%msmemscope --device=cpu --analysis=decompose
model = torch.nn.Linear(512, 512)
optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
model(torch.ones(8, 512)).sum().backward()
optimizer.step()"""
    fails = "%%msmemscope --device=cpu --analysis=inefficient,oom:3\ntorch.empty(1 << 60, dtype=torch.uint8)"
    (first, failed), run = run_cells(tmp_path, cell, fails)
    assert first["error"] is None
    _, answer, rest, _ = run.stdout.split("STATE", 3)
    assert "msmemscope: decompose, of all that was collected up to now" in answer
    assert "optimizer state  1.00 MiB" in answer
    assert "msmemscope: leaks" not in answer, "not asked for"
    assert "can't allocate memory" in failed["error"]
    assert len(failed["shown"]) == 1
    answer = rest[: rest.index("Traceback")]
    assert "msmemscope: inefficient, of all" in answer
    assert "Inefficient memory: " in answer
    assert re.search(r"msmemscope: oom, of all.*1.00 EiB asked for.* In\[3\], line 2", answer, re.DOTALL)
    assert "<ipython-input" not in answer


def test_analyses_of_a_collection_that_is_on_are_refused(tmp_path: Path) -> None:
    """As what they need may not be collected."""
    states, _ = run_cells(
        tmp_path,
        f"import msmemscope\nmsmemscope.config(device='cpu', analysis='', output={str(tmp_path / 'output')!r})\nmsmemscope.start()",
        "%%msmemscope --analysis=leaks\n1",
    )
    assert states[1]["error"] == "UsageError: collection is on already, so its settings hold; leave out analysis"


def test_what_is_not_known_hides_no_exception(tmp_path: Path) -> None:
    """The log is gone: a line says so, and the cell's own exception is the one that is shown."""
    cell = "%%msmemscope\ntorch.ones(256)\nimport shutil\nshutil.rmtree(folder)\n1 / 0"
    folder = "from msmemscope import _native\nfolder = _native.capture_directory()"
    (_, _, failed), run = run_cells(tmp_path, "%%msmemscope\ntorch.ones(256)", folder, cell)
    assert failed["error"] == "ZeroDivisionError: division by zero"
    assert failed["shown"] == []
    assert "msmemscope: the cell ran, but what it did to memory is not known: " in run.stderr


def test_magics_inside_a_cell_work(tmp_path: Path) -> None:
    """The cell is transformed as IPython does it."""
    (state,), run = run_cells(tmp_path, "%%msmemscope\n!echo from the shell\nnumbers = !echo 1; echo 2\nlen(numbers)")
    assert state["error"] is None
    assert "from the shell" in run.stdout


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    """A usage error without a traceback; nothing ran."""
    messages = {
        "%%msmemscope --leak\n1": "unknown option: '--leak'",
        "%%msmemscope --device=gpu\n1": "device: not a device: 'gpu'",
        "%%msmemscope --top=0\n1": "--top: not a number of lines: '0'",
        "%%msmemscope x = 1\n1": "%%msmemscope: takes options only on its line: 'x = 1'",
    }
    states, run = run_cells(tmp_path, *messages)
    for state, message in zip(states, messages.values(), strict=True):
        assert state["error"].startswith(f"UsageError: {message}")
        assert state["shown"] == []
    assert "Traceback" not in run.stdout + run.stderr


def test_collection_that_is_on_stays_on(tmp_path: Path) -> None:
    """The user's own start() is not ended; options that would not hold are refused; results are written at the end."""
    output = tmp_path / "output"
    states, run = run_cells(
        tmp_path,
        f"import msmemscope\nmsmemscope.config(device='cpu', output={str(output)!r})\nmsmemscope.start()",
        "%%msmemscope\nkept = torch.ones(256)",
        "%%msmemscope --device=npu\n1",
    )
    assert [state["is_tracing"] for state in states] == [True, True, True]
    assert "left by the cell: 1.00 KiB in 1 block" in states[1]["shown"][0]["text/plain"]
    assert states[2]["error"] == "UsageError: collection is on already, so its settings hold; leave out device"
    assert list(run.capture.directory.glob("device_cpu/dump/memscope_dump_*.csv"))


def test_an_output_folder_keeps_the_results(tmp_path: Path) -> None:
    """As of any program that collects."""
    states, run = run_cells(
        tmp_path, f"%%msmemscope --output={tmp_path / 'output'} --device=cpu\nkept = torch.ones(256)"
    )
    assert "1.00 KiB in 1 block" in states[0]["shown"][0]["text/plain"]
    assert list(run.capture.directory.glob("device_cpu/dump/memscope_dump_*.csv"))


def test_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Executed by a kernel: HTML and text in the output of the cell, and an exception that stops the notebook."""
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed in this environment")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed in this environment")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed in this environment")
    monkeypatch.chdir(tmp_path)
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    cells = [
        "%load_ext msmemscope.integrations.ipython\nimport torch",
        "%%msmemscope --device=cpu --analysis=decompose\nkept = torch.ones(256)\nkept.numel()",
        "%%msmemscope\n1 / 0",
        "'not reached'",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="ZeroDivisionError"):
        nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    result, shown, answer = notebook.cells[1].outputs
    assert result["data"]["text/plain"] == "256"
    assert "left by the cell: 1.00 KiB in 1 block" in shown["data"]["text/plain"]
    assert "In[2], line 2<br><code>kept = torch.ones(256)</code>" in shown["data"]["text/html"]
    assert answer["name"] == "stdout", "plain text, in one piece"
    assert re.search(
        r"msmemscope: decompose.*Owners on cpu \(HOST\) at the peak of 1.00 KiB", answer["text"], re.DOTALL
    )
    shown, error = notebook.cells[2].outputs
    assert "msmemscope: memory in In[3]" in shown["data"]["text/plain"]
    assert error["ename"] == "ZeroDivisionError"
    assert notebook.cells[3].execution_count is None
