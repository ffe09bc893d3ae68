"""Which line of a stack an allocation is shown under."""

from __future__ import annotations

import polars as pl
import pytest

from msmemscope.formats.event_log import PythonFrame
from msmemscope.recording import STRING_SCHEMA
from msmemscope.recording.source_lines import (
    blamed_frame,
    is_foreign_file,
    line_and_library,
    line_text,
    site_frame,
    site_text,
    source_lines,
)

PACKAGE = "/opt/tool/msmemscope"
SITE = "/venv/lib/python3.11/site-packages"

LINEAR = PythonFrame(f"{SITE}/torch/nn/modules/linear.py", 125, "forward")
NPU = PythonFrame(f"{SITE}/torch_npu/npu/memory.py", 5, "malloc")
BUILT_TORCH = PythonFrame("/home/me/pytorch/torch/nn/modules/linear.py", 125, "forward")
BUILT_TENSOR = PythonFrame("/home/me/pytorch/torch/_tensor.py", 33, "wrapped")
ZIPPED_LIBRARY = PythonFrame("/opt/embedded/python311.zip/copy.py", 153, "deepcopy")
PROJECT_NAMED_TORCH = PythonFrame("/home/me/torch/train.py", 3, "main")
DEBIAN_TORCH = PythonFrame("/usr/lib/python3/dist-packages/torch/tensor.py", 3, "to")
LIBRARY = PythonFrame("/usr/lib/python3.12/threading.py", 1012, "run")
FREE_THREADED = PythonFrame("/opt/lib/python3.13t/threading.py", 1012, "run")
LOCAL_LIBRARY = PythonFrame("/home/me/.pyenv/versions/3.10.13/lib/python3.10/runpy.py", 86, "_run_code")
FROZEN = PythonFrame("<frozen importlib._bootstrap>", 241, "_call")
COMPILED = PythonFrame("/tmp/torchinductor_me/ab/cabc.py", 77, "call")
OWN_ELSEWHERE = PythonFrame("/home/me/src/msmemscope/integrations/pytest.py", 7, "_collect")
OWN_ENTRY = PythonFrame(f"{SITE}/msmemscope/watcher.py", 7, "watch")
OWN = PythonFrame(f"{PACKAGE}/capture/operators.py", 50, "__torch_dispatch__")
WRAPPER = PythonFrame(f"{SITE}/torch/_dynamo/eval_frame.py", 1446, "_fn")
MODEL = PythonFrame(f"{SITE}/transformers/models/gpt2/modeling_gpt2.py", 300, "forward")
TRAIN = PythonFrame("/home/me/train.py", 42, "step")
BODY = PythonFrame("/home/me/train.py", 99, "<module>")
USER = PythonFrame("/home/me/msmemscope/watcher_of_mine.py", 3, "run")
STRING = PythonFrame("<string>", 1, "<module>")
COMMAND = PythonFrame("/venv/bin/llama-train", 8, "<module>")
LOSS = PythonFrame("/usr/lib/python3/dist-packages/losses/focal.py", 12, "<lambda>")


@pytest.mark.parametrize(
    "frame",
    [
        LINEAR,
        NPU,
        DEBIAN_TORCH,
        BUILT_TORCH,
        BUILT_TENSOR,
        LIBRARY,
        FREE_THREADED,
        LOCAL_LIBRARY,
        ZIPPED_LIBRARY,
        FROZEN,
        COMPILED,
        OWN,
        OWN_ELSEWHERE,
        OWN_ENTRY,
    ],
)
def test_foreign_frames_are_passed_over(frame: PythonFrame) -> None:
    """PyTorch, Python's library, generated code, and ourselves."""
    assert blamed_frame([frame, TRAIN, BODY]) is TRAIN


@pytest.mark.parametrize("frame", [TRAIN, USER, PROJECT_NAMED_TORCH])
def test_the_innermost_frame_of_the_program_is_taken(frame: PythonFrame) -> None:
    """Whatever it is called, and whoever called it."""
    assert blamed_frame([LINEAR, frame, LIBRARY, BODY]) is frame
    assert site_text([LINEAR, frame, LIBRARY, BODY]) == line_text(frame)


@pytest.mark.parametrize("frame", [MODEL, LOSS])
def test_a_library_is_shown_behind_the_line_that_called_it(frame: PythonFrame) -> None:
    """Under the folder that libraries lie in; of several lines the innermost."""
    assert blamed_frame([LINEAR, frame, LIBRARY, TRAIN, BODY]) is TRAIN
    name = frame.file.partition("-packages/")[2]
    text = f"/home/me/train.py(42): step, in {name}({frame.line}): {frame.function}"
    assert site_text([LINEAR, frame, LIBRARY, TRAIN, BODY]) == text
    assert site_text([LINEAR, frame, MODEL, LOSS, TRAIN, BODY]) == text
    # A library that calls the program back is none that the program called.
    assert site_text([LINEAR, TRAIN, frame, BODY]) == line_text(TRAIN)


@pytest.mark.parametrize("start", [COMMAND, STRING, LIBRARY])
def test_a_library_that_is_the_program_itself_has_its_innermost_line(start: PythonFrame) -> None:
    """An installed command, a process that multiprocessing began, `python -m`."""
    assert site_text([LINEAR, MODEL, LOSS, start]) == line_text(MODEL)
    assert site_text([LINEAR, TRAIN, LOSS, start]) == line_text(TRAIN)


def test_code_of_the_command_line_has_a_line() -> None:
    """`python -c` has no file."""
    assert site_text([LINEAR, STRING]) == "<string>(1)"


@pytest.mark.parametrize("frames", [[TRAIN], [BODY], [MODEL, TRAIN], [LOSS, BODY], [MODEL, BODY], [LINEAR]])
def test_the_text_of_a_site_is_taken_apart(frames: list[PythonFrame]) -> None:
    """Its line is that of the program, whether a library stands behind it or not."""
    text = site_text(frames)
    assert text is not None
    line, library = line_and_library(text)
    assert line == line_text(frames[-1])
    assert bool(library) == (len(frames) > 1)
    assert site_frame(text) == (frames[-1].file, frames[-1].line, frames[-1].function)
    assert not is_foreign_file(library)


@pytest.mark.parametrize("text", ["aten.mm.default", "", "(no call site)", "lib.so(symbol+0x3)"])
def test_what_is_no_line_of_python(text: str) -> None:
    """Operators and native functions are sites, too."""
    assert line_and_library(text) == (text, "")
    assert site_frame(text) is None


def test_without_a_frame_of_the_program_the_innermost_is_taken() -> None:
    """Better than nothing; but never one of ours."""
    assert blamed_frame([OWN, LINEAR, LIBRARY]) is LINEAR
    assert blamed_frame([LIBRARY, LINEAR]) is LIBRARY
    assert blamed_frame([OWN]) is None
    # The wrapper through which torch calls our mode, in a backward thread; what torch compiles is another matter.
    assert blamed_frame([OWN, WRAPPER]) is None
    assert blamed_frame([LINEAR, WRAPPER]) is LINEAR
    assert blamed_frame([WRAPPER]) is WRAPPER
    assert blamed_frame([]) is None


def test_text_of_a_line() -> None:
    """The body of a module needs no name."""
    assert line_text(TRAIN) == "/home/me/train.py(42): step"
    assert line_text(BODY) == "/home/me/train.py(99)"


def test_each_stack_has_a_line() -> None:
    """Stacks without frames have no row, and lines that are no frames are passed over."""
    stacks = [[LINEAR, TRAIN], [LOSS, BODY], []]
    texts = ["".join(f"{frame}\n" for frame in stack) for stack in stacks]
    lines = source_lines(pl.DataFrame({"id": range(1, 6), "text": [*texts, "damaged\n", None]}, schema=STRING_SCHEMA))
    assert dict(lines.iter_rows()) == {
        1: "/home/me/train.py(42): step",
        2: "/home/me/train.py(99), in losses/focal.py(12): <lambda>",
    }
