"""Where in the program a block was allocated: findings are grouped by it.

A call site is the path through the program itself. It leaves out frames of PyTorch, of Python's library and of
msmemscope. Two allocations deep inside one operator are of one site if the same lines called it. The same helper called
from two places is two sites. Installed libraries are part of the path. The line of the program that called them is
shown, with theirs behind it. Without a Python stack, the native stack takes its place if it has a function of the
program. Else the outermost operator does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from msmemscope.model.events import EventFlag
from msmemscope.recording.block_sets import BEFORE_RECORDING
from msmemscope.recording.source_lines import (
    is_foreign_file,
    line_text,
    program_frames,
    site_frame,
    site_text,
    stack_frames,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from msmemscope.recording import Recording

STACK_COLUMNS: Final = ("python_stack_id", "native_stack_id", "name_id")
"""Columns of a block that tell its call site."""
_STACK_SCHEMA: Final = {name: pl.UInt32() for name in STACK_COLUMNS}

NO_CALL_SITE: Final = "(no call site)"
"""Label of blocks without any stack that no operator allocated."""
UNKNOWN_SITES: Final = (NO_CALL_SITE, BEFORE_RECORDING)
"""Labels where no line of the program is known."""

_FOREIGN_MODULE: Final = re.compile(
    r"(?:^|/)(?:lib(?:c10|torch|ascend|msmemscope|runtime|acl|hal|opapi|nnopbase|mstx|ms_tools|python|stdc|c[.]|pthread|atb"
    r"|leaks|cuda|cudart|npu|op_plugin|shm)[^/(]*|ld-linux[^/(]*|_native[.][^/(]*|_C[.][^/(]*|python[0-9.]*t?)\("
)
_FOREIGN_SOURCE: Final = re.compile(
    r"/(?:torch|torch_npu)/csrc/|/(?:aten/src/)?ATen/|/c10/|/third_party/|/pybind11/|/include/c\+\+/|/sysdeps/|/nptl/|/csu/"
    r"|(?:^|/)(?:Python|Objects|Modules|Include|Programs)/(?:\w+/)*\w+\.[ch]\("
)
"""Files of torch, of the C++ library, of the C library and of Python's interpreter, in whatever folder they were built."""
_SYMBOL: Final = re.compile(
    r"(?:^|\()(?:[\w:<>,&*\s]* )?\(?(?:torch|c10|at|caffe2|torch_npu|c10_npu|at_npu|op_api|op_plugin|std|pybind11|__gnu_cxx)::"
)
_RUNTIME: Final = re.compile(
    r"(?:^|\()(?:_?Py[A-Z_]\w*|_?Py(?:Eval|Function|Object|Run|Vectorcall)\w*|THP\w+|pymain_\w+|cfunction_\w+|method_vectorcall\w*"
    r"|vectorcall_\w+|slot_tp_\w+|type_call|_start|main|__libc_\w+|start_thread|pthread_\w+|_*clone3?|execute_native_thread_routine"
    r"|<unwind unsupported>|\?\?)(?:\.\w+)*(?:\+0x[0-9a-f]+)?(?:\(.*\))?\)?$"
)
"""Functions of Python's interpreter, of its bindings and of the start of threads and programs."""
_UNWINDING: Final = re.compile(
    r"torch::unwind|CapturedTraceback|gather_with_cpp|<unwind unsupported>|CachingAllocator|std::_Function_handler"
    r"|at::detail::empty_|TensorIteratorBase::|::create_out\(|::set_output_raw_strided\("
)
"""The innermost frames of each stack that torch takes itself, and those between them and the operator."""


def is_library_frame(line: str) -> bool:
    """Whether a frame of a native stack is torch's, a library's that it needs, or Python's.

    Frames are `module(symbol+0xoff) [0xaddr]`; of snapshots of torch `file(symbol)`, or the symbol alone.
    """
    is_symbol_alone = "/" not in line.partition("(")[0]
    return (
        _FOREIGN_MODULE.search(line) is not None
        or _FOREIGN_SOURCE.search(line) is not None
        or (is_symbol_alone and (_SYMBOL.search(line) is not None or _RUNTIME.search(line) is not None))
    )


def call_sites(recording: Recording, blocks: pl.DataFrame) -> pl.DataFrame:
    """Find the call site of each different stack of some blocks.

    Args:
        recording: Where stacks and names are looked up.
        blocks: Rows with STACK_COLUMNS. With `flags`, sites without any stack or operator get their own label if all
            their blocks were there when recording began.

    Returns:
        One row per different STACK_COLUMNS: these, `site` (the line to show, see `source_lines`), and `site_path`. The
        path identifies the site: the lines of the program and of its libraries from the innermost on.
    """
    stacks = blocks.select(STACK_COLUMNS).unique()
    python = _described(stacks["python_stack_id"], recording.python_stacks, _python_site)
    native = _described(stacks["native_stack_id"], recording.native_stacks, _native_site)
    # Frames of libraries alone tell less than the operator.
    foreign = _described(stacks["native_stack_id"], recording.native_stacks, _foreign_native_site)
    names = recording.strings.select(pl.col("id").alias("name_id"), pl.col("text").alias("operator"))
    found = (
        stacks.join(python, left_on="python_stack_id", right_on="id", how="left")
        .join(native, left_on="native_stack_id", right_on="id", how="left", suffix="_native")
        .join(foreign, left_on="native_stack_id", right_on="id", how="left", suffix="_foreign")
        .join(names, on="name_id", how="left")
    )
    unknown = pl.lit(_label_of_unknown(blocks))
    return found.select(
        *STACK_COLUMNS,
        pl.coalesce("site", "site_native", "operator", "site_foreign", unknown).alias("site"),
        pl.coalesce("site_path", "site_path_native", "operator", "site_path_foreign", unknown).alias("site_path"),
    )


def _label_of_unknown(blocks: pl.DataFrame) -> str:
    if "flags" not in blocks.columns:
        return NO_CALL_SITE
    flags = blocks.filter(pl.all_horizontal(pl.col(STACK_COLUMNS) == 0))["flags"]
    return BEFORE_RECORDING if len(flags) and bool(((flags & EventFlag.SHADOW) != 0).all()) else NO_CALL_SITE


def is_of_program(site: str) -> bool:
    """Whether a site is a line, or a native function, of the program: no operator, and nothing inside of a library of torch."""
    frame = site_frame(site)
    if frame is not None:
        return not is_foreign_file(frame.file)
    return "(" in site and site not in UNKNOWN_SITES and not is_library_frame(site)


def failing_call_site(recording: Recording, failure: Mapping[str, Any]) -> tuple[str, str]:
    """Return `site` and `site_path` of an allocation that failed; `site` is empty without any stack.

    The name of its event is no operator's.
    """
    stacks = pl.DataFrame([{name: failure[name] for name in STACK_COLUMNS} | {"name_id": 0}], _STACK_SCHEMA)
    site, path = call_sites(recording, stacks).select("site", "site_path").row(0)
    return ("" if site in UNKNOWN_SITES else site), path


def _described(ids: pl.Series, texts: pl.DataFrame, describe: Callable[[str], tuple[str, str] | None]) -> pl.DataFrame:
    used = texts.filter(pl.col("id").is_in(ids.unique().implode()) & (pl.col("id") != 0))
    rows = [(identity, *found) for identity, text in used.iter_rows() if (found := describe(text or ""))]
    schema = {"id": pl.UInt32, "site": pl.String, "site_path": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _python_site(text: str) -> tuple[str, str] | None:
    path = program_frames(stack_frames(text))
    site = site_text(path)
    return None if site is None else (site, "\n".join(map(line_text, path)))


def _native_site(text: str) -> tuple[str, str] | None:
    return _shown([line for line in text.splitlines() if not is_library_frame(line)])


def _foreign_native_site(text: str) -> tuple[str, str] | None:
    lines = text.splitlines()
    return _shown([line for line in lines if not _UNWINDING.search(line)] or lines)


def _shown(lines: Sequence[str]) -> tuple[str, str] | None:
    # Without the address: it differs from run to run.
    shown = [line.partition(" [")[0] for line in lines]
    return (shown[0], "\n".join(shown)) if shown else None
