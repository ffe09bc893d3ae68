"""The report of a fault, from a capture: its settings, the counts of its parts, and the parts that could not be read.

It has no data of the program: no texts of events, no call stacks, no contents of watched memory.
"""

from __future__ import annotations

import os
import platform
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msmemscope.analysis.coverage import summary_limits
from msmemscope.analysis.recorded import Recorded
from msmemscope.errors import MsmemscopeError
from msmemscope.formats.reading import load_all
from msmemscope.launch.faults import fault_text
from msmemscope.model.devices import device_name
from msmemscope.model.events import EventKind
from msmemscope.model.pools import pool_word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msmemscope.launch.redaction import Redaction
    from msmemscope.recording import Recording

_COMMAND_LINE: Final = frozenset({"argument", "executable"})
_MOST_VALUES: Final = 50
"""Values of one fact; a program can note any number of them."""
_MOST_FILES: Final = 2000
_PACKAGE: Final = Path(__file__).resolve().parents[1]
_KINDS: Final = {int(kind): kind.name for kind in EventKind}
_VARIABLES: Final = (
    "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONMALLOC", "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME",
    "ASCEND_LAUNCH_BLOCKING", "TASK_QUEUE_ENABLE", "PYTORCH_NPU_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "CUDA_VISIBLE_DEVICES",
    "ASCEND_RT_VISIBLE_DEVICES", "RANK", "WORLD_SIZE", "LANG", "LC_ALL", "MSMEMSCOPE_SETTINGS", "POLARS_MAX_THREADS",
)  # fmt: skip
"""Those that change what can be observed."""


def machine_content(redaction: Redaction) -> dict[str, Any]:
    """Describe this machine: not its name."""
    return {
        "system": platform.system(),
        "release": platform.release() if redaction.with_names else _kernel_version(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "environment": {name: redaction.token("value", os.environ[name]) for name in _VARIABLES if name in os.environ},
    }


def _kernel_version() -> str:
    """The builder chooses the text behind the numbers."""
    return platform.release().partition("-")[0]


def input_content(path: Path, redaction: Redaction) -> dict[str, Any]:
    """Describe the content of a path, and how reading it ended.

    Args:
        path: A capture, a dump, a snapshot, or what should be one.
        redaction: Learns the command line from the captures.
    """
    redaction.keep_private([str(path), str(path.absolute())])
    content: dict[str, Any] = {}
    try:
        recordings = load_all(path)
    except MsmemscopeError as error:
        content["failure"] = redaction.text(error.message)
    except Exception as error:  # noqa: BLE001 - a fault is what reports are about
        content["failure"] = redaction.text(fault_text(error))
        content["traceback"] = list(_our_lines(error))
    else:
        content["processes"] = [_process(recording, redaction) for recording in recordings]
    # Last: by now the command line is known.
    return {"path": redaction.token("path", str(path)), "files": list(_files(path, redaction)), **content}


def _process(recording: Recording, redaction: Redaction) -> dict[str, Any]:
    for key in _COMMAND_LINE:
        values = recording.facts.get(key, ())
        redaction.keep_private((*values, *(value.partition("=")[2] for value in values)))
    return {
        "form": recording.form,
        "process_id": recording.process_id,
        "problems": [redaction.text(line) for line in recording.problems],
        "coverage": [redaction.text(line) for line in (*recording.coverage, *summary_limits(Recorded.of(recording)))],
        "facts": {
            redaction.text(key): [_fact(key, value, redaction) for value in values[:_MOST_VALUES]]
            for key, values in sorted(recording.facts.items())
        },
        "events": {_KINDS.get(kind, f"kind {kind}"): count for kind, count in _counts(recording)},
        "blocks": [
            {"device": device_name(device), "pool": pool_word(pool, device), "count": count, "never_freed": kept}
            for device, pool, count, kept in _blocks(recording)
        ],
        "strings": recording.strings.height,
        "python_stacks": recording.python_stacks.height,
        "native_stacks": recording.native_stacks.height,
        "steps": recording.steps.height,
        "step_source": recording.step_source.value,
    }


def _fact(key: str, value: str, redaction: Redaction) -> str:
    return redaction.token("argument", value) if key in _COMMAND_LINE else redaction.text(value)


def _counts(recording: Recording) -> list[tuple[int, int]]:
    return recording.events["kind"].value_counts().sort("kind").rows()


def _blocks(recording: Recording) -> list[tuple[int, int, int, int]]:
    import polars as pl

    grouped = recording.blocks.group_by("device", "pool").agg(pl.len(), kept=pl.col("free_sequence").is_null().sum())
    return grouped.sort("device", "pool").rows()


def _files(path: Path, redaction: Redaction) -> Iterator[dict[str, Any]]:
    """Names below the path and sizes in bytes; links are not followed."""
    if not path.is_dir():
        yield from _file(path, redaction.name(path.name))
        return
    left = _MOST_FILES
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            if not left:
                yield {"name": "and more", "bytes": None}
                return
            left -= 1
            file = Path(folder, name)
            yield from _file(file, redaction.name(str(file.relative_to(path))))


def _file(path: Path, name: str) -> Iterator[dict[str, Any]]:
    try:
        yield {"name": name, "bytes": path.lstat().st_size}
    except OSError as error:
        yield {"name": name, "bytes": None, "failure": error.strerror}


def _our_lines(error: BaseException) -> Iterator[str]:
    """Where a fault passed through our sources; lines of others may be the user's."""
    for frame in traceback.extract_tb(error.__traceback__):
        file = Path(frame.filename)
        if file.is_relative_to(_PACKAGE):
            yield f"{file.relative_to(_PACKAGE)}:{frame.lineno} {frame.name}"
