"""The line of a program that an allocation is to be shown under.

An allocation happens deep inside PyTorch; what its author wants to see is the innermost
line of their own. That is the innermost frame whose file belongs neither to PyTorch, nor
to Python's own library, nor to msmemscope.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

import polars as pl

from msmemscope.recording.schema import STRING_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Sequence

_MODULE_FUNCTION = "<module>"
_FRAME: Final = re.compile(r"(.*)\(([0-9]{1,18})\): (.*)")

# Of PyTorch: an installed torch or torch_npu, or one that was built and is imported where it lies. Of Python: frozen modules, generated code
# of the library, and what lies in lib/pythonX.Y outside of site-packages.
_FOREIGN_FILE = re.compile(
    r"""
      /(?:site|dist)-packages/(?:torch|torch_npu|functorch|msmemscope)/
    | /torch/(?:nn/(?:modules|functional|parallel|parameter|utils|init|attention|qat|quantized)|autograd/|optim/|_\w+(?:/|[.]py)
        |utils/(?:data|checkpoint|_\w+)|(?:functional|serialization|storage|overrides|library)[.]py|distributed/|fx/|jit/|ao/|amp/)
    | /torch_npu/(?:__init__[.]py|_init|npu|utils|contrib|distributed|optim|profiler|dynamo|_inductor|_logging|_afd)\b
    | /torchinductor_[^/]+/
    | /lib(?:64)?/python3(?:\.\d+)?t?/(?!(?:site|dist)-packages/)
    | /python3\d+[.]zip/
    | ^<frozen[ ]
    | ^<(?:__array_function__[ ]internals|attrs[ ]generated|eval_with_key)
    """,
    re.VERBOSE,
)


def foreign_part(file: str) -> str | None:
    """Return the part of a path by which it is known to be foreign; None if it belongs to the program."""
    match = _FOREIGN_FILE.search(file)
    return None if match is None else match[0]


# What of our own package runs inside a program, wherever it is installed.
_OUR_FILE = re.compile(
    r"/msmemscope/(?:(?:capture|bootstrap|integrations)/|(?:__init__|describe|tracer|watcher)[.]py$)"
)
_DISPATCH_WRAPPER_FILE = "/torch/_dynamo/eval_frame.py"
"""End of the path of the wrapper through which torch calls our dispatch mode."""


@functools.lru_cache(maxsize=1 << 14)
def is_foreign_file(file: str) -> bool:
    """Whether a file belongs to PyTorch, to Python's own library or to msmemscope, and not to the program."""
    return _FOREIGN_FILE.search(file) is not None


class Frame(Protocol):
    """One call of a Python stack."""

    @property
    def file(self) -> str:
        """The file as the code object has it."""

    @property
    def line(self) -> int:
        """The line being executed."""

    @property
    def function(self) -> str:
        """The plain name of the function."""


FrameType = TypeVar("FrameType", bound=Frame)


def program_frames(frames: Sequence[FrameType]) -> list[FrameType]:
    """Choose the frames of the program itself; if there is none, those that are not ours.

    Args:
        frames: A stack, innermost first.
    """
    others: list[FrameType] = []
    is_within_ours = False
    for frame in frames:
        is_ours = _OUR_FILE.search(frame.file) is not None
        # torch calls our dispatch mode through a wrapper, which is there because of us.
        if not is_ours and not (is_within_ours and frame.file.endswith(_DISPATCH_WRAPPER_FILE)):
            others.append(frame)
        is_within_ours = is_ours
    return [frame for frame in others if not is_foreign_file(frame.file)] or others


def blamed_frame(frames: Sequence[FrameType]) -> FrameType | None:
    """Choose the frame to show: the innermost one of `program_frames`, None for an empty stack."""
    return next(iter(program_frames(frames)), None)


def line_text(frame: Frame) -> str:
    """Write a frame as `file(line): function`, without the name that every module's body has."""
    function = "" if frame.function == _MODULE_FUNCTION else f": {frame.function}"
    return f"{frame.file}({frame.line}){function}"


class StackFrame(NamedTuple):
    """One call of a Python stack, read back from its text."""

    file: str
    line: int
    function: str


def stack_frames(text: str) -> list[StackFrame]:
    """Read the text of a Python stack, `<file>(<line>): <function>` per line; other lines are passed over."""
    return [frame for frame in map(_frame, text.splitlines()) if frame is not None]


# Stacks of one program share most of their lines.
@functools.lru_cache(maxsize=1 << 16)
def _frame(line: str) -> StackFrame | None:
    match = _FRAME.fullmatch(line)
    return None if match is None else StackFrame(match[1], int(match[2]), match[3])


def source_lines(stacks: pl.DataFrame) -> pl.DataFrame:
    """Find the line of each stack, for joining.

    Args:
        stacks: Texts of Python stacks, a table of `STRING_SCHEMA`.

    Returns:
        One row per stack that has a frame: `id` (u32), `text`.
    """
    found = ((identity, blamed_frame(stack_frames(text or ""))) for identity, text in stacks.iter_rows())
    rows = [(identity, line_text(frame)) for identity, frame in found if frame is not None]
    return pl.DataFrame(rows, STRING_SCHEMA, orient="row")
