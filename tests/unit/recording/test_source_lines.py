"""Which line of a stack an allocation is shown under."""

from __future__ import annotations

import polars as pl
import pytest

from msmemscope.formats.event_log import PythonFrame
from msmemscope.recording import STRING_SCHEMA
from msmemscope.recording.source_lines import blamed_frame, line_text, source_lines

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


@pytest.mark.parametrize("frame", [MODEL, TRAIN, STRING, USER, PROJECT_NAMED_TORCH])
def test_the_innermost_frame_of_the_program_is_taken(frame: PythonFrame) -> None:
    """Libraries that are not PyTorch count as the program."""
    assert blamed_frame([LINEAR, frame, LIBRARY, BODY]) is frame


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
    stacks = [[LINEAR, TRAIN], [BODY], []]
    texts = ["".join(f"{frame}\n" for frame in stack) for stack in stacks]
    lines = source_lines(pl.DataFrame({"id": range(1, 6), "text": [*texts, "damaged\n", None]}, schema=STRING_SCHEMA))
    assert dict(lines.iter_rows()) == {1: "/home/me/train.py(42): step", 2: "/home/me/train.py(99)"}
