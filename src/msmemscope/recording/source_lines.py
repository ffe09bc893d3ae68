"""The line of a program that an allocation is to be shown under.

An allocation happens deep inside PyTorch; its author wants to see the innermost line of their own. That is the
innermost frame outside of PyTorch, of Python's own library, of msmemscope and of installed libraries. The line of an
installed library is shown behind it: `train.py(41): main, in accelerate/optimizer.py(186): step`.
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
_LINE_IN_LIBRARY: Final = re.compile(r"(.*\([0-9]{1,18}\)(?:: [^(),]*)?), in (\S.*\([0-9]{1,18}\)(?:: .*)?)")

# Of PyTorch: an installed torch or torch_npu, or one that was built and is imported where it lies. Of Python: frozen modules, generated code
# of the library, and what lies in lib/pythonX.Y outside of site-packages.
_FOREIGN_FILE = re.compile(
    r"""
      (?:^|/)(?:site|dist)-packages/(?:torch|torch_npu|functorch|msmemscope)/
    | (?:^|/)torch/(?:nn/(?:modules|functional|parallel|parameter|utils|init|attention|qat|quantized)|autograd/|optim/|_\w+(?:/|[.]py)
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


# Installed files; and code that they make from text, as the start of a process by multiprocessing.
_LIBRARY_FILE = re.compile(r"(?:.*/)?(?:site|dist)-packages/|<string>$")
_COMMAND_FILE = re.compile(r"/bin/[^/.]+$")
"""End of the path of an installed command, whose only line calls the library that it belongs to."""

# Our own files that run inside a program, wherever the package is installed.
_OUR_FILE = re.compile(
    r"/msmemscope/(?:(?:capture|bootstrap|integrations)/|(?:__init__|describe|tracer|watcher)[.]py$)"
)
_DISPATCH_WRAPPER_FILE = "/torch/_dynamo/eval_frame.py"
"""End of the path of the wrapper through which torch calls our dispatch mode."""


@functools.lru_cache(maxsize=1 << 14)
def is_foreign_file(file: str) -> bool:
    """Whether a file belongs to PyTorch, to Python's own library or to msmemscope, and not to the program."""
    return _FOREIGN_FILE.search(file) is not None


def is_library_file(file: str) -> bool:
    """Whether a file belongs to an installed library, and so not to the program."""
    return _LIBRARY_FILE.match(file) is not None


def path_in_library(file: str) -> str:
    """Return the path of a file of an installed library without the folder that libraries are installed in; others as they are."""
    match = _LIBRARY_FILE.match(file)
    return file if match is None else file[match.end() :] or file


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
    """Choose the frame to show, None for an empty stack.

    It is the innermost one of `program_frames` that is of no library; if there is none, the innermost one.
    """
    path = program_frames(frames)
    return next((frame for frame in path if not _is_of_library(frame)), next(iter(path), None))


def _is_of_library(frame: Frame) -> bool:
    is_command = frame.function == _MODULE_FUNCTION and _COMMAND_FILE.search(frame.file) is not None
    return is_command or is_foreign_file(frame.file) or is_library_file(frame.file)


def site_text(frames: Sequence[Frame]) -> str | None:
    """Write the line of a stack: that of the blamed frame and, where a library was called there, its innermost one behind.

    Args:
        frames: A stack, innermost first.
    """
    innermost, blamed = next(iter(program_frames(frames)), None), blamed_frame(frames)
    if innermost is None or blamed is None:
        return None
    if blamed is innermost:
        return line_text(blamed)
    of_library = StackFrame(path_in_library(innermost.file), innermost.line, innermost.function)
    return f"{line_text(blamed)}, in {line_text(of_library)}"


def line_and_library(site: str) -> tuple[str, str]:
    """Return the two parts of the text of a site: the line of the program, and that of the library, empty if there is none."""
    match = _LINE_IN_LIBRARY.fullmatch(site)
    return (site, "") if match is None else (match[1], match[2])


def site_frame(site: str) -> StackFrame | None:
    """Return the frame whose line a site shows, of several lines the first; None if it is no line of Python."""
    line, _ = line_and_library(site.partition("\n")[0])
    return next(iter(stack_frames(line) or stack_frames(f"{line}: {_MODULE_FUNCTION}")), None)


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
    found = ((identity, site_text(stack_frames(text or ""))) for identity, text in stacks.iter_rows())
    rows = [(identity, line) for identity, line in found if line is not None]
    return pl.DataFrame(rows, STRING_SCHEMA, orient="row")
