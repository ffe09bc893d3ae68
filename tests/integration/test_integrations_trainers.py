"""The callbacks in the real trainers, and the examples of all integrations."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import polars as pl
import pytest

from msmemscope.model.events import EventKind
from tests.support import tool, warm
from tests.support.nightly import nightly
from tests.support.recordings import events_of

pytestmark = pytest.mark.torch

EXAMPLES = Path(__file__).parents[2] / "examples" / "integrations"
NOT_JUDGED = "msmemscope: leaks and failed allocations not judged: with --steps"
"""How the summary of a healthy run begins."""
TOOL_PARTS = [*tool.TOOL, "--device=cpu"]


def needs(*packages: str) -> pytest.MarkDecorator:
    """Skip a test where one of the packages is missing."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed in this environment: {', '.join(missing)}")


INSTALLED = (
    *warm.WITH_TORCH,
    *(
        module
        for package, module in {"transformers": "transformers.trainer", "lightning": "lightning"}.items()
        if importlib.util.find_spec(package) is not None
    ),
)
"""Modules that programs import. Some take seconds."""

needs_transformers = needs("transformers", "accelerate")
needs_lightning = needs("lightning")


def run_python(tmp_path: Path, *words: object, before: tuple[object, ...] = (), is_warm: bool = True) -> tool.ToolRun:
    """Run Python on a program, in an environment without torch_npu: transformers loads it where it is importable.

    Args:
        tmp_path: A folder of the test.
        *words: Words after `python`.
        before: Words of the command line before `python`.
        is_warm: Whether trainers may have been imported before. This never happens if there are words before `python`.
    """
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    kept = os.pathsep.join(folder for folder in folders if not (Path(folder) / "torch_npu").is_dir())
    variables = {"PYTHONPATH": kept, "TMPDIR": str(tmp_path), "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
    if before or not is_warm:
        return tool.run([*before, sys.executable, *words], output=tmp_path / "output", variables=variables)
    return warm.run_python(words, output=tmp_path / "output", variables=variables, modules=INSTALLED)


def steps_of(run: tool.ToolRun) -> list[int]:
    """Numbers of the steps that ended."""
    assert run.returncode == 0, run.stderr
    events = events_of(run.capture).filter(pl.col("kind") == int(EventKind.STEP))
    return events["size"].to_list()


def blocks_by_step(run: tool.ToolRun) -> dict[int, int]:
    """Step to the number of blocks that were allocated in it; blocks that collection found are left out."""
    events = events_of(run.capture)
    allocated = events.filter((pl.col("kind") == int(EventKind.MALLOC)) & (pl.col("flags") & 1 == 0))
    ends = events.filter(pl.col("kind") == int(EventKind.STEP))["sequence"].to_list()
    found: dict[int, int] = {}
    for sequence in allocated["sequence"]:
        step = 1 + sum(end < sequence for end in ends)
        found[step] = found.get(step, 0) + 1
    return found


@needs_transformers
def test_transformers_marks_optimizer_steps(tmp_path: Path) -> None:
    """16 samples in batches of 2, two batches to a step, two epochs: 8 steps, with an evaluation after each epoch."""
    run = run_python(tmp_path, EXAMPLES / "train_with_transformers.py", f"--output={tmp_path / 'output'}")
    assert run.report == {"optimizer_steps": "8"}
    assert NOT_JUDGED in run.stderr
    assert steps_of(run) == list(range(1, 9))
    assert set(blocks_by_step(run)) == {2, 3}


@needs_lightning
def test_lightning_marks_optimizer_steps(tmp_path: Path) -> None:
    """8 batches, three of them to a step and the rest at the end of the epoch, two epochs: 6 steps; validations too."""
    run = run_python(tmp_path, EXAMPLES / "train_with_lightning.py", f"--output={tmp_path / 'output'}")
    assert run.report == {"optimizer_steps": "6"}
    assert NOT_JUDGED in run.stderr
    assert steps_of(run) == list(range(1, 7))
    assert set(blocks_by_step(run)) == {2, 3}


def test_a_plain_loop(tmp_path: Path) -> None:
    """A plain loop can do by hand what the callbacks do."""
    run = run_python(tmp_path, EXAMPLES / "plain_loop.py", f"--output={tmp_path / 'output'}")
    assert run.report == {"optimizer_steps": "4"}
    assert NOT_JUDGED in run.stderr
    assert steps_of(run) == [1, 2, 3, 4]
    assert set(blocks_by_step(run)) == {2, 3}
    (trace,) = run.capture.directory.glob("device_cpu/dump/python_trace_*.csv")
    assert pl.read_csv(trace)["FuncInfo"].to_list() == ["forward"] * 4


@pytest.mark.parametrize(
    "example",
    [
        pytest.param("train_with_transformers.py", marks=needs_transformers),
        pytest.param("train_with_lightning.py", marks=[needs_lightning, nightly]),
    ],
)
def test_under_the_command_line_collection_stays_on(tmp_path: Path, example: str) -> None:
    """The launcher's settings hold, the callback's are refused by a line, and the steps are marked."""
    command = (*TOOL_PARTS, f"--output={tmp_path / 'output'}", "--")
    run = run_python(tmp_path, EXAMPLES / example, f"--output={tmp_path / 'other'}", before=command)
    assert steps_of(run) == list(range(1, int(run.report["optimizer_steps"]) + 1))
    assert min(blocks_by_step(run)) == 1
    assert "collection is on already, so its settings hold: steps, output" in run.stderr
    assert "msmemscope: nothing found: " in run.stderr
    assert not (tmp_path / "other").exists()


FAILING = {
    "transformers": """
import pickle, sys
sys.argv[1:] = ["--output=" + sys.argv[1]]
sys.path.insert(0, {folder!r})
import train_with_transformers as example
from transformers import Trainer, TrainerCallback
from msmemscope.capture.session import session
from msmemscope.integrations.transformers import MsmemscopeCallback
callback = MsmemscopeCallback()
assert isinstance(callback, TrainerCallback)
assert type(pickle.loads(pickle.dumps(callback))) is MsmemscopeCallback
original = example.Model.forward
calls = []
def forward(self, values, labels):  # transformers passes the inputs that are named here
    calls.append(session.is_tracing)
    if len(calls) == 6:
        raise RuntimeError("planned")
    return original(self, values, labels)
example.Model.forward = forward
""",
    "lightning": """
import pickle, sys
sys.argv[1:] = ["--output=" + sys.argv[1]]
sys.path.insert(0, {folder!r})
import train_with_lightning as example
from lightning.pytorch.callbacks import Callback
from msmemscope.capture.session import session
from msmemscope.integrations.lightning import MsmemscopeCallback
callback = MsmemscopeCallback()
assert isinstance(callback, Callback)
assert type(pickle.loads(pickle.dumps(callback))) is MsmemscopeCallback
original = example.Module.training_step
calls = []
def training_step(self, batch, batch_index):
    calls.append(session.is_tracing)
    if len(calls) == 6:
        raise RuntimeError("planned")
    return original(self, batch, batch_index)
example.Module.training_step = training_step
""",
}

CATCH = """
try:
    example.main()
except RuntimeError as error:
    print(f"raised={error} during={all(calls)} after={session.is_tracing}")
"""


@pytest.mark.parametrize(
    "framework",
    [pytest.param("transformers", marks=needs_transformers), pytest.param("lightning", marks=needs_lightning)],
)
def test_exceptions_end_collection(tmp_path: Path, framework: str) -> None:
    """They reach the program as they are, and collection is off when they do."""
    program = tmp_path / "failing.py"
    program.write_text(FAILING[framework].replace("{folder!r}", repr(str(EXAMPLES))) + CATCH)
    run = run_python(tmp_path, program, tmp_path / "output")
    assert run.returncode == 0, run.stderr
    assert run.report == {"raised": "planned", "during": "True", "after": "False"}


@pytest.mark.parametrize("framework", ["transformers", "lightning"])
def test_without_the_package_only_the_use_fails(tmp_path: Path, framework: str) -> None:
    """The import succeeds; the error says what to install."""
    program = tmp_path / "missing.py"
    program.write_text(
        "import sys, importlib.util\n"
        "find = importlib.util.find_spec\n"
        "gone = {'transformers', 'lightning', 'pytorch_lightning'}\n"
        "importlib.util.find_spec = lambda name, *rest: None if name in gone else find(name, *rest)\n"
        f"from msmemscope.integrations.{framework} import MsmemscopeCallback\n"
        "try:\n    MsmemscopeCallback()\nexcept ImportError as error:\n    print(error)\n"
    )
    run = run_python(tmp_path, program, is_warm=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(f"msmemscope.integrations.{framework}.MsmemscopeCallback needs {framework}")
    assert f"hint: pip install {framework}" in run.stdout


@pytest.mark.parametrize(
    "framework",
    [pytest.param("transformers", marks=needs_transformers), pytest.param("lightning", marks=needs_lightning)],
)
def test_a_wrong_setting_is_told_where_it_is_made(tmp_path: Path, framework: str) -> None:
    """Not when training begins."""
    program = tmp_path / "wrong.py"
    program.write_text(
        f"from msmemscope.integrations.{framework} import MsmemscopeCallback\n"
        "try:\n    MsmemscopeCallback(steps='0')\nexcept ValueError as error:\n    print(error)\n"
    )
    run = run_python(tmp_path, program)
    assert run.stdout.startswith("steps: not a step: '0'"), run.stderr


def test_the_example_of_the_pytest_plugin_passes(tmp_path: Path) -> None:
    """Its limit is close to what the test needs: weights, gradients, and the memory of the backward pass."""
    from tests.integration.test_integrations_pytest import IS_INSTALLED

    plugin = () if IS_INSTALLED else ("-p", "pytest_msmemscope")
    # A trainer has imported a plugin of pytest before, which is nothing to fail for.
    is_imported = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")
    options = ("-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", *is_imported, *plugin)
    run = run_python(tmp_path, "-m", "pytest", *options, EXAMPLES / "test_memory.py")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 passed" in run.stdout


@needs("nbformat", "nbclient", "ipykernel")
def test_the_example_notebook_runs(tmp_path: Path) -> None:
    """And shows what its cells have left: 8 MiB of weights and gradients with their biases."""
    program = tmp_path / "execute.py"
    program.write_text(
        "import sys, nbformat, nbclient\n"
        "notebook = nbformat.read(sys.argv[1], as_version=4)\n"
        "nbclient.NotebookClient(notebook, timeout=120, kernel_name='python3').execute()\n"
        "for cell in notebook.cells:\n"
        "    for output in cell.get('outputs', ()):\n"
        "        print(output['data']['text/plain'])\n"
    )
    run = run_python(tmp_path, program, EXAMPLES / "memory_of_a_cell.ipynb", is_warm=False)
    assert run.returncode == 0, run.stderr
    assert "left by the cell: 8.01 MiB in 4 blocks" in run.stdout
    assert "msmemscope: memory in In[3]" in run.stdout
